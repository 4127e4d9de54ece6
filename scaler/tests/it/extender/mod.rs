//! Tests of the scheduler extender, with requests as kube-scheduler sends them.

mod calls;
pub mod cluster;
mod hostile;
mod many;
