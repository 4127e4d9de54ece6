//! The command `tetris-node`, as an administrator runs it.

mod cold;
mod crash_loop;
mod gpu_mirror;
pub mod harness;
mod image;
mod once;
mod opens;
pub mod pages;
mod remedies;
mod run;
mod scale;
mod scrub;
mod service;
