//! Models on nodes: pods that keep them there, and the report on that.
//!
//! # Flow
//! Each `Model` has a DaemonSet of its namespace, whose pods run `tetris keep`: they pull the model into the store,
//! hold it there, and answer for the volumes by which other pods mount it. [`decide`] compares the models with the
//! DaemonSets and their pods, purely; [`run`] carries out what is due while this replica leads.
//!
//! # Guarantees
//! - Credentials stay in their namespace: the kubelet hands a Secret to the pods that name it, and the operator reads
//!   none.
//! - What the DaemonSets run stands in a PodTemplate of the operator's namespace. An admission policy lets the operator
//!   write no pods but those that keep models, without rights.
//! - A DaemonSet's content never changes, only its nodes do. Another source is another DaemonSet, and the one of before
//!   stays until the new one has the model on all of its nodes.
//! - Without the operator, nodes keep what they have, and new nodes with the labels get it.

mod decide;
mod describe;
mod nodes;
mod ordered;
mod records;
mod run;
mod server;
mod status;
#[cfg(test)]
mod tests;

pub(super) use ordered::OrderedModels;
pub(crate) use records::check as check_model;
pub(super) use run::{Surroundings, follow};
