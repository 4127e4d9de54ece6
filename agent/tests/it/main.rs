//! The library, and the command `tetris` as its users run it.

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
#[path = "../../../deploy/tests/shared/command_page.rs"]
mod command_page;
mod common;
#[cfg(feature = "cli")]
#[expect(dead_code, reason = "the command asks no server")]
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
mod examples;
#[cfg(feature = "cli")]
#[path = "../../../deploy/tests/shared/exit_codes_page.rs"]
mod exit_codes_page;
mod fresh;
mod fuzz_corpus;
#[path = "../../../deploy/tests/shared/generated_page.rs"]
mod generated_page;
#[cfg(feature = "cli")]
#[path = "../../../deploy/tests/shared/json_schema.rs"]
mod json_schema;
mod layout;
#[cfg(feature = "cli")]
#[path = "../../../reclaimer/tests/shared/lease.rs"]
mod lease;
mod load;
#[path = "../../../fuzz/checks/manifest_repair.rs"]
mod manifest_repair;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/sidecar.rs"]
mod sidecar;
#[path = "../../../fuzz/seeds/sidecar.rs"]
mod sidecar_seeds;
