//! Files of a web server.

use std::num::NonZeroU64;
use std::time::Instant;

use tetris_delivery::{KnownBy, PullError, PullOptions, list};
use tetris_store_layout::{ManifestObject, ObjectKind};
use tetris_test_support::models::write_sharded;

use crate::world::{World, options};

#[test]
fn a_file_is_read_once_and_then_known_by_its_version() {
    let world = World::new();
    let first = world.pull_one("m.safetensors");
    assert_eq!(first.known_by, KnownBy::Reading);
    assert_eq!(first.new_objects, first.objects);
    let sent = world.site.take_sent();
    // One byte for its length and version.
    assert_eq!(sent, world.size() + 1);
    world.assert_loads_from_the_store();
    world.site.take_asked();
    let again = world.pull_one("m.safetensors");
    assert_eq!((again.known_by, again.fetched), (KnownBy::Version, 0));
    assert_eq!(again.manifest, first.manifest);
    // Its length and version are asked for, and nothing else.
    assert_eq!(world.site.take_asked().len(), 1);
}

#[test]
fn another_version_moves_only_what_the_store_does_not_have() {
    let world = World::new();
    world.pull_one("m.safetensors");
    let other = world.fixture.dir().join("other.safetensors");
    tetris_test_support::models::write_model(&other, 1, Some(9));
    world
        .site
        .put("m.safetensors", std::fs::read(&other).unwrap());
    let report = world.pull_one("m.safetensors");
    // Without a manifest all of it is read, and one object is new.
    assert_eq!((report.known_by, report.new_objects), (KnownBy::Reading, 1));
}

#[test]
fn what_was_reclaimed_is_fetched_again_alone() {
    let world = World::new();
    world.pull_one("m.safetensors");
    let objects = world.store().objects().unwrap().objects;
    let largest = objects.iter().max_by_key(|entry| entry.object.len).unwrap();
    world.store().reclaim(&largest.object).unwrap();
    let report = world.pull_one("m.safetensors");
    assert_eq!((report.known_by, report.new_objects), (KnownBy::Version, 1));
    assert_eq!(report.fetched, largest.object.len);
    // A pack's tensors lie apart in the file.
    let manifest = world.store().manifest(report.manifest.unwrap()).unwrap();
    let objects = manifest.unwrap().objects;
    let is_pack = |entry: &&ManifestObject| entry.kind == ObjectKind::Pack;
    let pack = objects.iter().find(is_pack).unwrap();
    world.store().reclaim(&pack.object).unwrap();
    let report = world.pull_one("m.safetensors");
    assert_eq!(report.new_objects, 1);
    assert!(report.fetched < 200_000, "{}", report.fetched);
    world.assert_loads_from_the_store();
}

#[test]
fn an_index_brings_the_files_that_it_names() {
    let world = World::new();
    let dir = world.fixture.dir().join("sharded");
    write_sharded(&dir);
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        world
            .site
            .put(&format!("s/{name}"), std::fs::read(&path).unwrap());
    }
    let report = world.pull("s/model.safetensors.index.json").unwrap();
    let paths: Vec<_> = report
        .files
        .iter()
        .map(|file| file.file.path.as_str())
        .collect();
    let expected = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(paths, expected);
    let model = world.fixture.agent.load(&dir).unwrap();
    assert_eq!(model.report().bytes_new, 0);
}

#[test]
fn an_index_that_names_a_path_elsewhere_is_refused() {
    let world = World::new();
    let index = r#"{"weight_map":{"a":"../../etc/passwd"}}"#;
    world.site.put("m.safetensors.index.json", index);
    let error = world.pull("m.safetensors.index.json").unwrap_err();
    assert!(matches!(error, PullError::Path { .. }), "{error}");
    assert_eq!(world.objects(), 0);
}

#[test]
fn empty_and_small_files_come_too() {
    let world = World::new();
    world.site.put("config.json", "{}");
    world.site.put("empty.txt", "");
    let config = world.pull_one("config.json");
    assert_eq!((config.objects, config.fetched), (1, 2));
    let empty = world.pull_one("empty.txt");
    assert_eq!((empty.objects, empty.manifest), (0, None));
}

#[test]
fn a_listing_fetches_no_file() {
    let world = World::new();
    let source = world.site.file_url("m.safetensors").parse().unwrap();
    let listing = list(&source, &options()).unwrap();
    assert_eq!(listing.selected[0].size, world.size());
    assert!(world.site.take_sent() <= 1);
    assert_eq!(world.objects(), 0);
}

#[test]
fn a_rate_is_kept() {
    let world = World::new();
    let begun = Instant::now();
    let rate = NonZeroU64::new(world.size() * 2);
    let limited = PullOptions::default().with_bytes_per_second(rate);
    world.pull_with("m.safetensors", &limited).unwrap();
    // Half a second's bytes, less what may come at once. A slow machine only takes longer.
    assert!(begun.elapsed().as_millis() >= 350, "{:?}", begun.elapsed());
}
