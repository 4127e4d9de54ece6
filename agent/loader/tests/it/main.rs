//! Headers and the seeds of the fuzz targets.

mod fuzz_corpus;
#[path = "../../../../fuzz/checks/header.rs"]
mod header_check;
#[path = "../../../../fuzz/seeds/header.rs"]
mod header_seeds;
#[path = "../../../../fuzz/heap.rs"]
mod heap;
mod hostile_headers;
#[path = "../../../../fuzz/checks/hub_index.rs"]
mod hub_index;
#[path = "../../../../fuzz/seeds/hub_index.rs"]
mod hub_index_seeds;
#[path = "../../../../fuzz/checks/manifest.rs"]
mod manifest_check;
#[path = "../../../../fuzz/checks/manifest_repair.rs"]
mod manifest_repair;
#[path = "../../../../fuzz/seeds/manifest.rs"]
mod manifest_seeds;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
