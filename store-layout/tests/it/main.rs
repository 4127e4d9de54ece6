//! The protocols of LAYOUT.md on real files, and the seeds of a fuzz target.

mod compatibility;
mod examples;
mod fuzz_corpus;
#[path = "../../../fuzz/heap.rs"]
mod heap;
mod held;
#[path = "../../../fuzz/checks/layout_table.rs"]
mod layout_table;
#[path = "../../../fuzz/seeds/layout_table.rs"]
mod layout_table_seeds;
mod protocol;
mod quarantine;
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/store_files.rs"]
mod store_files;
#[path = "../../../fuzz/seeds/store_files.rs"]
mod store_files_seeds;
