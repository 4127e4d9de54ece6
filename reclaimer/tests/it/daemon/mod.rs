//! The command `tetris-node`, as an administrator runs it.

mod crash_loop;
mod gpu_mirror;
pub mod harness;
mod image;
mod once;
#[cfg(feature = "kubernetes")]
pub mod pages;
mod remedies;
mod run;
mod scrub;
mod service;
