//! The command `tetris-node`, as an administrator runs it.

mod harness;
mod image;
mod mirror;
mod once;
mod run;
mod scrub;
