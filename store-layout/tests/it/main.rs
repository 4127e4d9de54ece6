//! The protocols of LAYOUT.md on real files, and the seeds of a fuzz target.

mod compatibility;
mod examples;
mod fuzz_corpus;
mod held;
mod protocol;
mod quarantine;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/store_files.rs"]
mod store_files;
#[path = "../../../fuzz/seeds/store_files.rs"]
mod store_files_seeds;
