//! The daemon's images: nothing but the program.

use tetris_test_support::docker::{Image, missing};
use tetris_test_support::skipped::skipped;

fn image() -> Option<Image> {
    if let Some(reason) = missing() {
        skipped(&reason);
        return None;
    }
    let program = env!("CARGO_BIN_EXE_tetris-node");
    Some(Image::of("tetris-node", program, "0:0"))
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
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("node.toml");
    let config =
        "node = \"n\"\n[kubernetes]\nenabled = true\n[[stores]]\nname = \"s\"\npath = \"/store\"\n";
    std::fs::write(&file, config).unwrap();
    let mount = format!("--volume={0}:{0}:ro", dir.path().display());
    let config = format!("--config={}", file.display());
    image.reaches_an_api_server(&[mount], &["run", &config]);
}
