//! Certificates and the server, against an API server that the tests play, over real sockets.

mod api;
mod bounds;
mod client;
mod command;
mod https;
mod image;
mod life;
mod metrics;
mod passes;
mod plans;
mod replica;
mod replicas;
mod siege;
mod stopping;
