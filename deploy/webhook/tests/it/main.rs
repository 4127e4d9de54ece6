//! The webhook: what pods are given, and its server and certificates over real sockets.

#[path = "../../../tests/shared/image.rs"]
mod docker;
#[path = "../../../tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
#[path = "../../../tests/shared/generated_page.rs"]
mod generated_page;
mod inject;
#[path = "../../../tests/shared/metrics_page.rs"]
mod metrics_page;
mod served;
#[path = "../../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
