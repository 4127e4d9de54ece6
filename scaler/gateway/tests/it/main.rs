//! Tests of the gateway with instances that behave as told.

mod client;
#[path = "../../../../deploy/tests/shared/command_page.rs"]
mod command_page;
mod connections;
mod endurance;
mod envoy;
#[path = "../../../../deploy/tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod faults;
mod forwarding;
mod gateway;
#[path = "../../../../deploy/tests/shared/generated_page.rs"]
mod generated_page;
mod gpu;
mod hostile;
mod instance;
mod life;
#[path = "../../../../deploy/tests/shared/metrics_page.rs"]
mod metrics_page;
mod pages;
mod picker;
mod port;
mod queueing;
mod raw_instance;
mod replica;
mod responses;
mod server;
mod siege;
mod unread;
