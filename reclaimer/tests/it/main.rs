//! The daemon, its parts and its command, as administrators, pods and programs meet them.

mod config;
mod config_fields;
mod csi;
mod daemon;
mod example;
mod http;
mod ingest;
mod kubernetes;
mod mirror_process;
mod mirror_siege;
mod mount;
mod node;
#[path = "../shared/private_memory.rs"]
mod private_memory;
mod processes;
#[path = "../shared/processes.rs"]
mod running;
mod socket;
