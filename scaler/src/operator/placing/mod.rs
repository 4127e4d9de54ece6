//! Placing of pods that wait behind their gate.
//!
//! Runs beside the passes, several times a second: a pod waits for no plan of all functions. Each
//! gated pod gets a node of its Deployment's plan that lacks an instance, if that still has room,
//! else another one. A pod whose node does not take it is deleted, and that node is left out.
//! Every replica remembers; the leader writes. Gated pods of other owners prefer the nodes that have
//! most of their model.

mod memory;
mod model_pods;
mod run;
mod step;
mod steps;

pub use memory::Memory;
pub use run::Placer;
pub use step::Step;
pub use steps::steps;
