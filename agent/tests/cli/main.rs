//! The command `tetris`, run as its users run it.

#[path = "../common/mod.rs"]
mod common;

mod exec;
mod exec_paths;
mod fill;
mod gc;
mod global;
mod gpu_bench;
mod init;
mod inspect;
mod similarity;
mod site;
mod verify;
