//! Tests across the crates: crashes, faults, limits, races, dependencies, words.

mod assumptions;
mod attacks;
mod bench_report;
mod book;
mod circles;
mod concurrent_loads;
mod crash;
mod crash_race;
mod dependencies;
mod forged_blob;
mod full_store;
mod identity;
mod idiom;
#[path = "../../../reclaimer/tests/shared/lease.rs"]
mod lease;
mod limits;
mod model_paths;
mod owner;
mod real_model;
mod recipes;
mod release;
mod signals;
mod size;
mod source_faults;
mod store_faults;
mod syscall_faults;
mod terminal;
mod torn_private;
mod torture;
mod vocabulary;
mod words;
mod workflows;
mod write_in_flight;
