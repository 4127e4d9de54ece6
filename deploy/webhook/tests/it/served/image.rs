//! The webhook's image: nothing but the program.

use tetris_test_support::docker::{Image, missing};
use tetris_test_support::skipped::skipped;

fn image() -> Option<Image> {
    if let Some(reason) = missing() {
        skipped(&reason);
        return None;
    }
    let program = env!("CARGO_BIN_EXE_tetris-webhook");
    Some(Image::of("tetris-webhook", program, "65532:65532"))
}

#[test]
fn the_image_answers_version_and_help() {
    if let Some(image) = image() {
        image.answers_version_and_help();
    }
}

#[test]
fn the_image_reaches_an_api_server_whose_authority_nobody_names() {
    let Some(image) = image() else { return };
    let arguments = [
        "run",
        "--namespace=tetris-system",
        "--listen=127.0.0.1:0",
        "--metrics-listen=127.0.0.1:0",
    ];
    image.reaches_an_api_server(&[], &arguments);
}
