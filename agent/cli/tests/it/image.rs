//! The agent's image: nothing but the command.

use crate::site::skipped;
use tetris_test_support::docker::{Image, missing};

#[test]
fn the_image_answers_version_and_help() {
    if let Some(reason) = missing() {
        return skipped(reason);
    }
    let program = env!("CARGO_BIN_EXE_tetris");
    Image::of("tetris-agent", program, "65532:65532").answers_version_and_help();
}
