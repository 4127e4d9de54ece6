//! The library as programs use it.

mod examples;
mod fresh;
mod fuzz_corpus;
mod layout;
mod load;
#[path = "../../../fuzz/checks/manifest_repair.rs"]
mod manifest_repair;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/sidecar.rs"]
mod sidecar;
#[path = "../../../fuzz/seeds/sidecar.rs"]
mod sidecar_seeds;
