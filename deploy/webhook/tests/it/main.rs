//! The webhook: what pods are given, and its server and certificates over real sockets.

#[path = "../../../../fuzz/checks/admission_review.rs"]
mod admission_review;
#[path = "../../../../fuzz/seeds/admission_review.rs"]
mod admission_review_seeds;
mod fuzz_corpus;
mod inject;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod served;
