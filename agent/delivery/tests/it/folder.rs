//! Folders of this machine.

use std::os::unix::fs::symlink;

use tetris_delivery::{KnownBy, PullError, pull};
use tetris_store_layout::Digest;
use tetris_test_support::models::{settle, write_sharded};

use crate::world::{World, options};

/// SHA-256 of the model of [`World::new`], as a cache of Hugging Face names it.
fn sha256_of(path: &std::path::Path) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(std::fs::read(path).unwrap());
    Digest(digest.into()).to_string()
}

#[test]
fn a_folder_is_pulled_with_the_files_below_it() {
    let world = World::new();
    let dir = world.fixture.dir().join("repo");
    write_sharded(&dir);
    std::fs::create_dir(dir.join("tokenizer")).unwrap();
    std::fs::write(dir.join("tokenizer/vocab.txt"), "a b").unwrap();
    std::fs::write(dir.join("pytorch_model.bin"), "weights").unwrap();
    std::fs::write(dir.join(".hidden"), "x").unwrap();
    let source = dir.to_str().unwrap().parse().unwrap();
    let report = pull(&source, world.destination(), &options()).unwrap();
    let paths: Vec<_> = report
        .files
        .iter()
        .map(|file| file.file.path.as_str())
        .collect();
    let expected = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer/vocab.txt",
    ];
    assert_eq!(paths, expected);
    assert_eq!(report.left_out, ["pytorch_model.bin"]);
    std::fs::remove_file(dir.join("model-00002-of-00002.safetensors")).unwrap();
    let error = pull(&source, world.destination(), &options()).unwrap_err();
    assert!(matches!(error, PullError::MissingShard { .. }), "{error}");
}

#[test]
fn a_digest_that_the_source_promises_is_proved() {
    let world = World::new();
    let cache = world.fixture.dir().join("models--org--m");
    let (blobs, snapshot) = (cache.join("blobs"), cache.join("snapshots/c"));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(&snapshot).unwrap();
    let digest = sha256_of(&world.model);
    std::fs::copy(&world.model, blobs.join(&digest)).unwrap();
    settle(&blobs.join(&digest));
    let link = snapshot.join("model.safetensors");
    symlink(blobs.join(&digest), &link).unwrap();
    let source = snapshot.to_str().unwrap().parse().unwrap();
    let pull = || pull(&source, world.destination(), &options());
    assert_eq!(pull().unwrap().files[0].known_by, KnownBy::Reading);
    let again = pull().unwrap();
    assert_eq!(
        (again.files[0].known_by, again.fetched),
        (KnownBy::Sha256, 0)
    );
    // A load from the cache knows the blob by what the pull has bound.
    let model = world.fixture.agent.load(&link).unwrap();
    assert_eq!(
        (model.report().bytes_read, model.report().bytes_new),
        (0, 0)
    );

    // Another file under that name: nothing is bound to it, and nothing of it is left.
    let lie = "ab".repeat(32);
    let other = world.fixture.model("other.safetensors", 2);
    std::fs::copy(other, blobs.join(&lie)).unwrap();
    std::fs::remove_file(&link).unwrap();
    symlink(blobs.join(&lie), &link).unwrap();
    let before = (world.objects(), world.store().manifests().unwrap().len());
    let error = pull().unwrap_err();
    assert!(matches!(error, PullError::Digest { .. }), "{error}");
    let after = (world.objects(), world.store().manifests().unwrap().len());
    assert_eq!(after, before);
}

#[test]
fn a_missing_folder_says_its_path() {
    let world = World::new();
    let source = "/nowhere/at/all".parse().unwrap();
    let error = pull(&source, world.destination(), &options()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
