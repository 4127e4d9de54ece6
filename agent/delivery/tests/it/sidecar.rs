//! Sidecars beside models at their source. A web server gives no times, so these pull from folders.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tetris_agent::{LoadOptions, ManifestKind, sidecar};
use tetris_delivery::{FileReport, KnownBy, pull};
use tetris_test_support::models::write_model;

use crate::world::{World, options};

/// A folder with a fine-tune of the world's model and its sidecar; the base is in the store.
fn fine_tune(world: &World) -> PathBuf {
    world.pull_one("m.safetensors");
    let dir = world.fixture.dir().join("tuned");
    std::fs::create_dir(&dir).unwrap();
    let model = dir.join("model.safetensors");
    write_model(&model, 1, Some(7));
    let options = LoadOptions::default();
    let (agent, kind) = (&world.fixture.agent, ManifestKind::Safetensors);
    let manifest = agent.manifests(&model, kind, &options).unwrap().remove(0).1;
    sidecar::write(&model, &manifest).unwrap();
    dir
}

fn pull_folder(world: &World, dir: &Path) -> FileReport {
    let source = dir.to_str().unwrap().parse().unwrap();
    let report = pull(&source, world.destination(), &options()).unwrap();
    assert_eq!(report.files.len(), 1, "the sidecar is no file of the model");
    report.files.into_iter().next().unwrap()
}

fn touch(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn a_fine_tune_moves_its_own_tensors() {
    let world = World::new();
    let dir = fine_tune(&world);
    let report = pull_folder(&world, &dir);
    assert_eq!((report.known_by, report.new_objects), (KnownBy::Sidecar, 1));
    // The tensor of 400,000 bytes, and the samples that show the sidecar to be the file's.
    assert!(report.fetched < 400_000 + (1 << 20), "{}", report.fetched);
    let model = world
        .fixture
        .agent
        .load(dir.join("model.safetensors"))
        .unwrap();
    assert_eq!(model.report().bytes_new, 0);
}

#[test]
fn a_sidecar_that_is_older_than_its_model_is_not_taken() {
    let world = World::new();
    let dir = fine_tune(&world);
    touch(
        &dir.join("model.safetensors.tetris"),
        Duration::from_mins(1),
    );
    assert_eq!(pull_folder(&world, &dir).known_by, KnownBy::Reading);
}

#[test]
fn a_sidecar_of_other_content_is_not_taken() {
    let world = World::new();
    let dir = fine_tune(&world);
    // The same names and shapes: only the samples tell.
    write_model(&dir.join("model.safetensors"), 5, None);
    touch(&dir.join("model.safetensors"), Duration::from_mins(1));
    let report = pull_folder(&world, &dir);
    assert_eq!(report.known_by, KnownBy::Reading);
    let model = world
        .fixture
        .agent
        .load(dir.join("model.safetensors"))
        .unwrap();
    assert_eq!(model.report().bytes_new, 0);
}

#[test]
fn damaged_sidecars_are_not_taken() {
    let world = World::new();
    let dir = fine_tune(&world);
    std::fs::write(dir.join("model.safetensors.tetris"), [0x54; 300]).unwrap();
    assert_eq!(pull_folder(&world, &dir).known_by, KnownBy::Reading);
}
