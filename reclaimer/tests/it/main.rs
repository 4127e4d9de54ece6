//! The daemon, its parts and its command, as administrators, pods and programs meet them.

#[path = "../shared/alone.rs"]
mod alone;
#[path = "../shared/api.rs"]
mod api;
#[path = "../../../deploy/tests/shared/command_page.rs"]
mod command_page;
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
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
#[cfg(feature = "node")]
mod example;
#[path = "../../../deploy/tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod fuzz_corpus;
#[path = "../../../deploy/tests/shared/generated_page.rs"]
mod generated_page;
#[path = "../../../fuzz/heap.rs"]
#[cfg(any(feature = "node", feature = "kubernetes"))]
mod heap;
mod http;
mod ingest;
#[path = "../../../deploy/tests/shared/json_schema.rs"]
mod json_schema;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[path = "../shared/lease.rs"]
#[cfg(all(feature = "node", feature = "kubernetes"))]
mod lease;
#[path = "../../../deploy/tests/shared/metrics_page.rs"]
mod metrics_page;
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
#[path = "../shared/reachable.rs"]
mod reachable;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../shared/processes.rs"]
#[cfg(all(feature = "node", feature = "kubernetes"))]
mod running;
#[path = "../../../fuzz/checks/session.rs"]
mod session;
#[path = "../shared/settled.rs"]
mod settled;
#[path = "../shared/skipped.rs"]
mod skipped;
mod socket;
#[path = "../../../fuzz/seeds/steps.rs"]
mod steps;
