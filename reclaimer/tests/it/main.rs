//! The daemon, its parts and its command, as administrators, pods and programs meet them.

#[path = "../shared/alone.rs"]
mod alone;
mod config;
mod config_fields;
mod csi;
mod daemon;
#[path = "../../../fuzz/checks/daemon_session.rs"]
mod daemon_session;
#[path = "../../../fuzz/seeds/daemon_session.rs"]
mod daemon_session_seeds;
mod example;
mod fuzz_corpus;
#[path = "../../../fuzz/heap.rs"]
mod heap;
mod http;
mod ingest;
mod kubernetes;
mod mirror_process;
mod mirror_siege;
mod mount;
mod namespace;
mod node;
#[path = "../../../fuzz/checks/node_message.rs"]
mod node_message;
#[path = "../../../fuzz/seeds/node_message.rs"]
mod node_message_seeds;
#[path = "../../../fuzz/checks/persisted_state.rs"]
mod persisted_state;
#[path = "../../../fuzz/seeds/persisted_state.rs"]
mod persisted_state_seeds;
#[path = "../shared/private_memory.rs"]
mod private_memory;
mod processes;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../shared/processes.rs"]
mod running;
#[path = "../../../fuzz/checks/session.rs"]
mod session;
mod socket;
#[path = "../../../fuzz/seeds/steps.rs"]
mod steps;
