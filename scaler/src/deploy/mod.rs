//! The command `deploy`: a model and an objective become a served function.
//!
//! `documents` builds the resources, purely: a `Model`, an `InferenceFunction`, and the RoleBindings by which the operator may
//! work in the namespace. [`run()`] applies them, and follows the function's status until the operator has measured and released it.

mod apply;
mod args;
mod documents;
mod error;
mod follow;
mod run;

pub use args::DeployArgs;
pub use error::DeployError;
pub use run::run;
