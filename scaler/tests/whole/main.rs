//! `tetris-scaler run` as a process, against an API server, a controller of Deployments, a scheduler, kubelets, daemons of
//! nodes and a Prometheus that the tests play.

mod api;
mod daemons;
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
mod documents;
mod handover;
mod image;
mod kubernetes;
mod loads;
mod operator;
mod scaling;
#[path = "../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod steady;
mod trouble;
mod world;
