//! The operator: observes the cluster, plans, and acts.
//!
//! **Flow.** Watches keep [`cache::Cache`]s of functions, profiles, Deployments, pods and nodes; daemons of nodes are
//! asked for their tensors, and Prometheus for loads. A pass makes one [`observed::Observed`] of that;
//! [`plan::reconcile`], which is pure, says what is to be done; [`act::Actor`] does it, if this replica leads.
//! Every replica plans, so that each can serve what was decided.
//!
//! **Guarantees.** All state is in the cluster: resources, Deployments, and marks of pods. What is remembered beside
//! that (loads of a window, steadiness) makes a new leader more careful, never less. Writes name the version of
//! what they follow from. One function's error is its own.
//!
//! **No finalizer.** What a function makes is its Deployments, which it owns: the garbage collector deletes them with
//! it. Marks go with their pods. Decisions for other autoscalers are published from memory, and end with the next
//! pass. A finalizer would have nothing to do but to block deletion when the operator is gone.
//!
//! **Caveats.** The scheduler places pods: preferences are wishes. Whether pods tolerate taints, or select
//! nodes, is not looked at.

pub mod act;
pub mod cache;
mod deployment;
pub mod loads;
pub mod memory;
mod names;
pub mod observed;
pub mod outage;
pub mod plan;
pub mod prepare;
pub mod records;
mod report;
pub mod run;
mod template;
mod view;
pub mod watches;

pub use names::deployment_name;
pub(crate) use report::infeasible;
