//! The scaler over its real sockets, against clusters, daemons and a Prometheus that the tests simulate.

#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
mod extender;
mod keda;
mod operator;
mod plan;
mod served;
#[path = "../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod snapshot;
mod whole;
