//! The webhook: what pods are given, and its server and certificates over real sockets.

mod inject;
mod served;
