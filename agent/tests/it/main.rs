//! The library, and the command `tetris` as its users run it.

#[cfg(feature = "cli")]
mod cli;
mod common;
#[cfg(feature = "cli")]
#[expect(dead_code, reason = "the command asks no server")]
#[path = "../../../deploy/tests/shared/image.rs"]
mod docker;
mod fresh;
mod load;
