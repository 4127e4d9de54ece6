//! Damage, interruptions, and directories with other content.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tetris_cold::{ColdError, ColdLimits, ColdStore, ColdTier, ListedModel};
use tetris_store_layout::ObjectRef;

use crate::node::{Node, any_room, bytes};

/// Changes a read-only file.
fn change(path: &Path, with: impl Fn(&mut Vec<u8>)) {
    let mut content = fs::read(path).unwrap();
    with(&mut content);
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, content).unwrap();
}

fn kept() -> (Node, ListedModel, ObjectRef) {
    let node = Node::new();
    let weights = bytes(1, 5_000_000);
    let model = node.pull("hf://org/a", &[("w.gguf", &weights)]);
    node.cold().keep(&model, &node.warm, &|| true).unwrap();
    (node.restarted(), model, ObjectRef::of(&weights))
}

#[test]
fn a_flipped_bit_is_found_and_the_model_leaves_the_disk() {
    for at in [0, 4_500_000] {
        let (node, model, weights) = kept();
        let mut cold = node.cold();
        change(&cold.store().object_path(&weights), |content| {
            content[at] ^= 1;
        });
        let restored = cold.restore(&model, &node.warm, &any_room, &|_, _| ());
        let error = restored.unwrap_err();
        assert!(matches!(error, ColdError::Damaged { .. }), "{error}");
        assert!(!node.warm.contains(&weights));
        assert_eq!(node.read("hf://org/a", "w.gguf"), None);
        assert_eq!(cold.models().unwrap(), []);
        assert!(!cold.store().contains(&weights));
        // From its source it comes again, and is kept again.
        let model = node.pull("hf://org/a", &[("w.gguf", &bytes(1, 5_000_000))]);
        cold.keep(&model, &node.warm, &|| true).unwrap();
        let node = node.restarted();
        node.cold()
            .restore(&model, &node.warm, &any_room, &|_, _| ())
            .unwrap();
    }
}

#[test]
fn files_that_a_power_cut_left_short_or_empty_restore_nothing_wrong() {
    for len in [0, 1, 4_999_999] {
        let (node, model, weights) = kept();
        let mut cold = node.cold();
        change(&cold.store().object_path(&weights), |content| {
            content.truncate(len);
        });
        let error = cold.restore(&model, &node.warm, &any_room, &|_, _| ());
        assert!(
            matches!(error, Err(ColdError::Incomplete { .. })),
            "{error:?}"
        );
        assert_eq!(cold.models().unwrap(), []);
    }
    // Records, too.
    for folder in ["manifests-v1", "derived-v1"] {
        let (node, model, _) = kept();
        let mut cold = node.cold();
        for entry in fs::read_dir(cold.store().root().join(folder)).unwrap() {
            change(&entry.unwrap().path(), Vec::clear);
        }
        let restored = cold.restore(&model, &node.warm, &any_room, &|_, _| ());
        assert!(restored.is_err(), "{folder}: {restored:?}");
        cold.collect().unwrap();
        assert_eq!(cold.models().unwrap(), [], "{folder}");
        assert_eq!(cold.bytes().unwrap(), 0, "{folder}");
        let model = node.pull("hf://org/a", &[("w.gguf", &bytes(1, 5_000_000))]);
        cold.keep(&model, &node.warm, &|| true).unwrap();
        let node = node.restarted();
        node.cold()
            .restore(&model, &node.warm, &any_room, &|_, _| ())
            .unwrap();
    }
}

#[test]
fn a_short_file_gives_its_place_to_the_object_and_goes() {
    let (node, _, weights) = kept();
    let mut cold = node.cold();
    change(&cold.store().object_path(&weights), |content| {
        content.truncate(1000);
    });
    let model = node.pull("hf://org/a", &[("w.gguf", &bytes(1, 5_000_000))]);
    cold.keep(&model, &node.warm, &|| true).unwrap();
    cold.collect().unwrap();
    assert_eq!(cold.store().quarantined().unwrap().objects, []);
    let node = node.restarted();
    node.cold()
        .restore(&model, &node.warm, &any_room, &|_, _| ())
        .unwrap();
}

#[test]
fn damaged_identities_take_nothing_else_away() {
    let (node, model, weights) = kept();
    let cold = node.cold();
    for entry in fs::read_dir(cold.store().root().join("identities-v1")).unwrap() {
        change(&entry.unwrap().path(), Vec::clear);
    }
    cold.restore(&model, &node.warm, &any_room, &|_, _| ())
        .unwrap();
    assert!(node.warm.contains(&weights));
    assert_eq!(node.warm.identities().unwrap(), []);
}

#[test]
fn what_a_killed_daemon_left_goes_and_lists_no_model() {
    let node = Node::new();
    let weights = bytes(1, 300_000);
    let model = node.pull("hf://org/a", &[("w.gguf", &weights)]);
    let mut cold = node.cold();
    // All but the list, which is written last.
    cold.keep(&model, &node.warm, &|| true).unwrap();
    cold.store().remove_derived(model.id).unwrap();
    assert!(!cold.has(&model));
    cold.collect().unwrap();
    assert_eq!(cold.bytes().unwrap(), 0);
    assert_eq!(cold.store().manifests().unwrap(), []);
}

#[test]
fn a_model_with_freed_parts_is_not_kept() {
    let node = Node::new();
    let weights = bytes(1, 300_000);
    let model = node.pull("hf://org/a", &[("w.gguf", &weights)]);
    node.warm.reclaim(&ObjectRef::of(&weights)).unwrap();
    let mut tier = node.tier(1 << 30);
    let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(kept, []);
    assert!(!tier.open("default").unwrap().has(&model));
    assert_eq!(tier.usage()[0].bytes, 0);
}

#[test]
fn a_disk_that_others_filled_takes_no_model() {
    let node = Node::new();
    node.pull("hf://org/a", &[("w.gguf", &bytes(1, 300_000))]);
    let limits = ColdLimits {
        bytes: 1 << 40,
        free_percent: 100,
    };
    let mut tier = ColdTier::new(&node.disk(), limits);
    let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(kept, []);
    assert_eq!(tier.usage()[0].bytes, 0);
}

#[test]
fn a_directory_with_other_content_is_refused_and_left() {
    let node = Node::new();
    let directory = node.disk().join("default");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("notes.txt"), "mine").unwrap();
    let error = ColdStore::open(&directory).unwrap_err().to_string();
    assert!(error.contains("empty directory of a local disk"), "{error}");
    assert_eq!(
        fs::read_to_string(directory.join("notes.txt")).unwrap(),
        "mine"
    );
    assert!(node.tier(1 << 30).usage().is_empty());
}
