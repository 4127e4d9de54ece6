//! Headers and the seeds of the fuzz targets.

mod fuzz_corpus;
#[path = "../../../../fuzz/checks/header.rs"]
mod header_check;
#[path = "../../../../fuzz/seeds/header.rs"]
mod header_seeds;
mod hostile_headers;
#[path = "../../../../fuzz/checks/manifest.rs"]
mod manifest_check;
