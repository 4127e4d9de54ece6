//! The daemon, its parts and its command, as administrators, pods and programs meet them.

#[path = "../shared/alone.rs"]
mod alone;
mod config;
#[cfg(all(feature = "node", feature = "kubernetes"))]
mod config_fields;
#[cfg(all(feature = "node", feature = "kubernetes"))]
mod csi;
mod daemon;
#[path = "../../../fuzz/checks/daemon_session.rs"]
mod daemon_session;
#[path = "../../../fuzz/seeds/daemon_session.rs"]
mod daemon_session_seeds;
#[cfg(feature = "node")]
mod example;
mod fuzz_corpus;
#[path = "../../../fuzz/heap.rs"]
#[cfg(any(feature = "node", feature = "kubernetes"))]
mod heap;
mod http;
mod ingest;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "node")]
mod mirror_process;
#[cfg(feature = "node")]
mod mirror_siege;
#[cfg(feature = "node")]
mod mount;
mod namespace;
mod node;
#[path = "../../../fuzz/checks/node_message.rs"]
#[cfg(feature = "node")]
mod node_message;
#[path = "../../../fuzz/seeds/node_message.rs"]
#[cfg(feature = "node")]
mod node_message_seeds;
#[path = "../../../fuzz/checks/persisted_state.rs"]
mod persisted_state;
#[path = "../../../fuzz/seeds/persisted_state.rs"]
mod persisted_state_seeds;
#[path = "../shared/private_memory.rs"]
mod private_memory;
#[cfg(feature = "node")]
mod processes;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../shared/processes.rs"]
#[cfg(all(feature = "node", feature = "kubernetes"))]
mod running;
#[path = "../../../fuzz/checks/session.rs"]
mod session;
mod socket;
#[path = "../../../fuzz/seeds/steps.rs"]
mod steps;
