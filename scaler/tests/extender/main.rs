//! Tests of the scheduler extender, with requests as kube-scheduler sends them.

#[path = "../support/snapshot.rs"]
mod support;

mod calls;
mod cluster;
mod hostile;
mod many;
