//! The scaler over its real sockets, against clusters, daemons and a Prometheus that the tests simulate.

mod command;
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
#[path = "../../../deploy/tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod extender;
#[path = "../../../deploy/tests/shared/generated_page.rs"]
mod generated_page;
mod keda;
#[path = "../../../deploy/tests/shared/metrics_page.rs"]
mod metrics_page;
mod operator;
mod plan;
mod served;
#[path = "../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod snapshot;
mod whole;
