//! Certificates and the server, against an API server that the tests play, over real sockets.

mod api;
mod bounds;
mod client;
mod command;
#[path = "../../../tests/shared/image.rs"]
mod docker;
mod https;
mod image;
mod life;
mod metrics;
mod passes;
mod plans;
mod replica;
mod replicas;
#[path = "../../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod stopping;
