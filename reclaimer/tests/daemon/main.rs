//! The command `tetris-reclaimer`, as an administrator runs it.

mod harness;
mod mirror;
mod once;
mod run;
mod scrub;
#[path = "../shared/settled.rs"]
mod settled;
#[path = "../shared/skipped.rs"]
mod skipped;
