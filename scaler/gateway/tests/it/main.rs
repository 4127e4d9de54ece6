//! Tests of the gateway with instances with scripted behavior.

mod admission;
mod client;
mod cluster;
mod connections;
mod endurance;
mod engines;
mod envoy;
mod faults;
mod forwarding;
mod gateway;
mod gpu;
mod hostile;
mod instance;
mod life;
mod pages;
mod picker;
mod port;
mod queueing;
mod raw_instance;
mod replica;
mod responses;
mod server;
mod siege;
mod tls;
mod traces;
mod unread;
