//! Tests of `tetris-scaler run` as a process, in a simulated cluster: an API server, a controller
//! of Deployments, a scheduler, kubelets, daemons and a Prometheus.

mod api;
mod counted;
pub mod daemons;
mod documents;
mod gateways;
mod handover;
mod image;
mod kubernetes;
mod loads;
mod operator;
mod scaling;
mod siege;
mod steady;
mod trouble;
mod world;
