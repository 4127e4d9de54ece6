//! Tests of the gateway with instances that behave as told.

mod client;
mod endurance;
mod envoy;
mod faults;
mod forwarding;
mod gateway;
mod hostile;
mod instance;
mod life;
mod picker;
mod queueing;
