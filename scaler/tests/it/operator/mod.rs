//! Tests of the operator's plans, against a simulated cluster.

mod convergence;
mod demand;
mod failing;
mod fields;
mod gpus;
mod model_pods;
mod placing;
mod reports;
mod service;
mod templates;
mod world;
