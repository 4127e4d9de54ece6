//! Stores share the size of the tier.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use tetris_cold::{ColdTier, ListedModel};

use crate::node::{Node, bytes};

const LEN: usize = 1_000_000;

/// Puts a model of [`LEN`] bytes into the store, last used `minutes` ago.
fn pull(node: &Node, source: &str, seed: u64, minutes: u64) -> ListedModel {
    let model = node.pull(source, &[("w.gguf", &bytes(seed, LEN))]);
    let record = node
        .warm
        .root()
        .join("derived-v1")
        .join(model.id.to_string());
    set_age(&record, minutes);
    ListedModel {
        last_used: std::fs::metadata(&record).unwrap().modified().unwrap(),
        ..model
    }
}

fn set_age(record: &std::path::Path, minutes: u64) {
    let time = SystemTime::now() - Duration::from_secs(60 * minutes);
    File::open(record).unwrap().set_modified(time).unwrap();
}

/// Sets the time of a model's last use on the disk.
fn set_cold_age(tier: &mut ColdTier, store: &str, model: &ListedModel, minutes: u64) {
    let root = tier.open(store).unwrap().store().root().to_owned();
    set_age(&root.join("derived-v1").join(model.id.to_string()), minutes);
}

fn has(tier: &mut ColdTier, store: &str, model: &ListedModel) -> bool {
    tier.open(store).unwrap().has(model)
}

#[test]
fn the_model_not_used_for_longest_leaves_for_one_used_later() {
    let node = Node::new();
    let mut tier = node.tier(2_300_000);
    let old = pull(&node, "hf://org/old", 1, 50);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    set_cold_age(&mut tier, "default", &old, 50);
    let middle = pull(&node, "hf://org/middle", 2, 40);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    set_cold_age(&mut tier, "default", &middle, 40);
    let new = pull(&node, "hf://org/new", 3, 1);
    let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(kept.len(), 1);
    let present = [&old, &middle, &new].map(|model| has(&mut tier, "default", model));
    assert_eq!(present, [false, true, true]);
    // The old one is in memory still, and does not come back for one used later.
    let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(kept, []);
    assert!(tier.usage()[0].bytes <= 2_300_000);
    // Once it was used, it does.
    set_age(
        &node.warm.root().join("derived-v1").join(old.id.to_string()),
        0,
    );
    let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(kept.len(), 1);
    let present = [&old, &middle, &new].map(|model| has(&mut tier, "default", model));
    assert_eq!(present, [true, false, true]);
}

#[test]
fn a_new_revision_takes_the_place_of_the_one_before() {
    let node = Node::new();
    let mut tier = node.tier(1 << 30);
    let shared = bytes(9, LEN);
    for seed in [1, 2] {
        let weights = bytes(seed, LEN);
        node.pull("hf://org/a", &[("a.bin", &weights), ("b.bin", &shared)]);
        let kept = tier.keep_models("default", &node.warm, &|| true).unwrap();
        assert_eq!(kept.len(), 1);
    }
    let usage = &tier.usage()[0];
    assert_eq!(usage.models, 1);
    assert!(usage.bytes < 2 * LEN as u64 + 100_000, "{usage:?}");
}

#[test]
fn what_a_damaged_model_left_goes_before_a_model_does() {
    let node = Node::new();
    let mut tier = node.tier(2_300_000);
    let intact = pull(&node, "hf://org/intact", 1, 50);
    let damaged = pull(&node, "hf://org/damaged", 2, 20);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    set_cold_age(&mut tier, "default", &intact, 50);
    let cold = tier.open("default").unwrap();
    cold.store().remove_derived(damaged.id).unwrap();
    node.warm.remove_derived(damaged.id).unwrap();
    let new = pull(&node, "hf://org/new", 3, 1);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    let present = [&intact, &damaged, &new].map(|model| has(&mut tier, "default", model));
    assert_eq!(present, [true, false, true]);
}

#[test]
fn a_use_in_memory_counts_on_the_disk() {
    let node = Node::new();
    let mut tier = node.tier(1 << 30);
    let model = pull(&node, "hf://org/a", 1, 50);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    set_cold_age(&mut tier, "default", &model, 40);
    let last_used =
        |tier: &mut ColdTier| tier.open("default").unwrap().models().unwrap()[0].last_used;
    let before = last_used(&mut tier);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert_eq!(last_used(&mut tier), before);
    set_age(
        &node
            .warm
            .root()
            .join("derived-v1")
            .join(model.id.to_string()),
        1,
    );
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    assert!(last_used(&mut tier) > before);
}

#[test]
fn the_store_that_takes_most_gives_first() {
    let (greedy, modest) = (Node::new(), Node::new());
    let mut tier = greedy.tier(3_300_000);
    let small = pull(&modest, "hf://org/small", 9, 60);
    tier.keep_models("modest", &modest.warm, &|| true).unwrap();
    set_cold_age(&mut tier, "modest", &small, 60);
    for (source, seed) in [("hf://org/a", 1), ("hf://org/b", 2), ("hf://org/c", 3)] {
        let model = pull(&greedy, source, seed, 10 - seed);
        tier.keep_models("greedy", &greedy.warm, &|| true).unwrap();
        set_cold_age(&mut tier, "greedy", &model, 10 - seed);
    }
    assert!(has(&mut tier, "modest", &small));
    let of = |tier: &mut ColdTier, store: &str| {
        let mut usage = tier.usage().into_iter();
        usage.find(|usage| usage.store == store).unwrap().models
    };
    assert_eq!(of(&mut tier, "greedy"), 2);
    tier.forget("greedy").unwrap();
    assert_eq!(tier.usage().len(), 1);
    assert!(!greedy.disk().join("greedy").exists());
}

#[test]
fn a_model_larger_than_the_tier_removes_nothing() {
    let node = Node::new();
    let mut tier = node.tier(1_300_000);
    let small = pull(&node, "hf://org/small", 1, 50);
    tier.keep_models("default", &node.warm, &|| true).unwrap();
    node.pull("hf://org/large", &[("w.gguf", &bytes(2, 2_000_000))]);
    assert_eq!(
        tier.keep_models("default", &node.warm, &|| true).unwrap(),
        []
    );
    assert!(has(&mut tier, "default", &small));
}

#[test]
fn a_tier_finds_the_stores_of_an_earlier_daemon() {
    let node = Node::new();
    pull(&node, "hf://org/a", 1, 0);
    node.tier(1 << 30)
        .keep_models("default", &node.warm, &|| true)
        .unwrap();
    std::fs::create_dir(node.disk().join("lost+found")).unwrap();
    let usage = node.tier(1 << 30).usage();
    assert_eq!(usage.len(), 1);
    assert_eq!((usage[0].store.as_str(), usage[0].models), ("default", 1));
}

#[test]
fn other_users_cannot_read_the_tier() {
    let node = Node::new();
    node.tier(1 << 30).open("default").unwrap();
    let mode = std::fs::metadata(node.disk()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
