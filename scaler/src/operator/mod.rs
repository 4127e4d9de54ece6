//! Operator: observes the cluster, plans, and acts.
//!
//! **Flow.** Watches keep [`cache::Cache`]s of functions, profiles, Deployments, pods and nodes. A
//! poller reads the nodes' tensors from their daemons, and [`loads`] has the loads, from
//! Prometheus or from gateways. A pass combines these in one [`observed::Observed`]. The pure function
//! [`plan::reconcile`] plans the actions, and [`apply::Applier`] executes them if this replica leads.
//! Every replica plans, so that each can serve the decisions.
//!
//! **Guarantees.** All state is in the cluster: resources, Deployments, and marks of pods. The
//! operator also remembers the loads of a window and steady times; without these, a new leader is
//! more careful, never less. Writes name the version that they are based on. An error of one
//! function does not affect others.
//!
//! **From zero.** Gateways are polled every 250 ms. A request that waits while its function has no
//! instance brings a pass at once, in spite of the least time between passes. While a request waits or is
//! served, the function's minimum is one instance, whatever its load is.
//!
//! **No finalizer.** A function owns its Deployments, and the garbage collector deletes them with
//! it. Marks disappear with their pods. Decisions for other autoscalers are published from memory,
//! and end with the next pass. A finalizer would have no work, and would block deletion without an
//! operator.
//!
//! **Placing.** New pods wait behind a scheduling gate. [`placing`] narrows each to the node that the
//! plan has for it, and opens the gate, beside the passes. The plan of a Deployment stands in an
//! annotation of it, so that a new leader carries it out.
//!
//! **Caveats.** Plans ignore the pods' tolerations and node selectors. Placing evaluates the
//! selectors, and takes another node where the planned one does not match.

mod action;
pub mod apply;
pub mod cache;
mod deployment;
pub mod engines;
mod gateway_loads;
pub mod health;
pub mod history;
mod json_paths;
pub mod latency;
pub mod loads;
pub(crate) mod models;
mod names;
mod node_views;
pub mod observed;
pub mod outage;
mod parts;
pub mod placing;
pub mod plan;
pub mod prepare;
mod profiling;
pub mod profiling_state;
pub mod records;
mod report;
pub mod run;
mod shared;
mod slots;
mod template;
mod view;
pub mod watches;

pub use names::deployment_name;
