//! The scaler over its real sockets, against clusters, daemons and a Prometheus that the tests simulate.

mod command;
#[path = "../../../deploy/tests/shared/command_page.rs"]
mod command_page;
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
#[path = "../../../deploy/tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod extender;
#[path = "../../../fuzz/checks/extender.rs"]
mod extender_check;
#[path = "../../../fuzz/seeds/extender.rs"]
mod extender_seeds;
mod fuzz_corpus;
mod gateways;
#[path = "../../../deploy/tests/shared/generated_page.rs"]
mod generated_page;
mod keda;
#[path = "../../../fuzz/checks/keda.rs"]
mod keda_check;
#[path = "../../../fuzz/seeds/keda.rs"]
mod keda_seeds;
#[path = "../../../deploy/tests/shared/metrics_page.rs"]
mod metrics_page;
mod operator;
mod plan;
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod served;
#[path = "../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod snapshot;
mod whole;
