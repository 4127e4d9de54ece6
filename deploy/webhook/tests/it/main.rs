//! The webhook: what pods are given, and its server and certificates over real sockets.

#[path = "../../../../fuzz/checks/admission_review.rs"]
mod admission_review;
#[path = "../../../../fuzz/seeds/admission_review.rs"]
mod admission_review_seeds;
#[path = "../../../tests/shared/command_page.rs"]
mod command_page;
#[path = "../../../tests/shared/image.rs"]
mod docker;
#[path = "../../../tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod fuzz_corpus;
#[path = "../../../tests/shared/generated_page.rs"]
mod generated_page;
mod inject;
#[path = "../../../tests/shared/metrics_page.rs"]
mod metrics_page;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod served;
#[path = "../../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
