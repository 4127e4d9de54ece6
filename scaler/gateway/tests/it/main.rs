//! Tests of the gateway with instances with scripted behavior.

mod admission;
mod client;
mod cluster;
mod connections;
mod endurance;
mod envoy;
#[path = "../../../../fuzz/checks/ext_proc.rs"]
mod ext_proc;
#[path = "../../../../fuzz/seeds/ext_proc.rs"]
mod ext_proc_seeds;
mod faults;
mod forwarding;
mod fuzz_corpus;
mod gateway;
#[path = "../../../../fuzz/checks/gateway_config.rs"]
mod gateway_config;
#[path = "../../../../fuzz/seeds/gateway_config.rs"]
mod gateway_config_seeds;
mod gpu;
#[path = "../../../../fuzz/checks/gpu_page.rs"]
mod gpu_page;
#[path = "../../../../fuzz/seeds/gpu_page.rs"]
mod gpu_page_seeds;
#[path = "../../../../fuzz/heap.rs"]
mod heap;
mod hostile;
mod instance;
mod life;
mod pages;
mod picker;
mod port;
mod queueing;
mod raw_instance;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod replica;
mod responses;
mod server;
mod siege;
mod tls;
mod traces;
mod unread;
