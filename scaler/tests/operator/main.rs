//! The operator's plans, against a cluster that the tests play.

mod convergence;
mod fields;
mod reports;
mod templates;
mod world;
