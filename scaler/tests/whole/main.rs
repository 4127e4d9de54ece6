//! `tetris-scaler run` as a process, against an API server, a controller of Deployments, a scheduler, kubelets, daemons of
//! nodes and a Prometheus that the tests play.

mod api;
mod daemons;
mod documents;
mod handover;
mod kubernetes;
mod loads;
mod operator;
mod scaling;
mod steady;
mod trouble;
mod world;
