//! Tests of the scheduler extender, with requests as kube-scheduler sends them.

mod calls;
pub mod cluster;
mod gpus;
mod hostile;
mod many;
