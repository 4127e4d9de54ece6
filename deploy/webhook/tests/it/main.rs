//! The webhook: what pods are given, and its server and certificates over real sockets.

#[path = "../../../tests/shared/image.rs"]
mod docker;
mod inject;
mod served;
#[path = "../../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
