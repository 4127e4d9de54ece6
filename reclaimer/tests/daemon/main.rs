//! The command `tetris-node`, as an administrator runs it.

#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
mod harness;
mod image;
mod mirror;
mod once;
mod run;
mod scrub;
#[path = "../shared/settled.rs"]
mod settled;
#[path = "../shared/skipped.rs"]
mod skipped;
