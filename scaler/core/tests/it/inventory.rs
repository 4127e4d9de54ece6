//! Tests of the inventory against plain sets.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tetris_scaler_core::{Change, Inventory, InventoryLimits, MAX_NODES, ModelTensors};
use tetris_store_layout::ObjectId;

fn id(number: u16) -> ObjectId {
    ObjectId::of(&number.to_le_bytes())
}

fn size(number: u16) -> u64 {
    1 << (number % 40)
}

fn limits(nodes: usize, objects: usize, pairs: usize) -> InventoryLimits {
    InventoryLimits {
        nodes,
        objects,
        pairs,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(u16, Vec<u16>),
    Remove(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..200_u16;
    // Ranges of objects, like a model loaded as a whole, and single objects.
    let objects = (
        0..60_u16,
        0..40_u16,
        proptest::collection::vec(0..100_u16, 0..6),
    )
        .prop_map(|(first, len, more)| (first..first + len).chain(more).collect());
    let step = prop_oneof![
        8 => (node.clone(), objects).prop_map(|(node, has)| Step::Set(node, has)),
        1 => node.prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..300)
}

type Plain = BTreeMap<String, BTreeSet<u16>>;

fn apply(inventory: &mut Inventory, plain: &mut Plain, step: Step) {
    match step {
        Step::Set(node, has) => {
            let name = format!("n{node}");
            let ids: Vec<ObjectId> = has.iter().map(|&number| id(number)).collect();
            let now: BTreeSet<u16> = has.into_iter().collect();
            let change = inventory.set_node(&name, &ids).unwrap();
            let before = plain.insert(name, now.clone()).unwrap_or_default();
            let expected = Change {
                added: now.difference(&before).count(),
                removed: before.difference(&now).count(),
            };
            assert_eq!(change, expected);
        }
        Step::Remove(node) => {
            let name = format!("n{node}");
            assert_eq!(inventory.remove_node(&name), plain.remove(&name).is_some());
        }
    }
}

proptest! {
    #[test]
    fn theta_is_that_of_plain_sets(steps in steps(), wanted in proptest::collection::btree_set(0..110_u16, 0..100)) {
        let (mut inventory, mut plain) = (Inventory::new(InventoryLimits::default()), Plain::new());
        for step in steps {
            apply(&mut inventory, &mut plain, step);
        }
        let model = ModelTensors::try_new(wanted.iter().map(|&number| (id(number), size(number)))).unwrap();
        let thetas = inventory.thetas(&model);
        let mut seen = Vec::new();
        for (node, theta) in thetas.iter() {
            let resident: u64 = plain[node].intersection(&wanted).map(|&number| size(number)).sum();
            prop_assert_eq!(theta.resident_bytes, resident);
            prop_assert_eq!(theta.total_bytes, model.total_bytes());
            prop_assert_eq!(inventory.theta(&model, node), Some(theta));
            prop_assert_eq!(thetas.of(node), Some(theta));
            seen.push(node.to_owned());
        }
        prop_assert_eq!(seen, plain.keys().cloned().collect::<Vec<_>>());
        let all: BTreeSet<u16> = plain.values().flatten().copied().collect();
        prop_assert_eq!(inventory.object_count(), all.len());
        prop_assert_eq!(inventory.pair_count(), plain.values().map(BTreeSet::len).sum::<usize>());
    }

    #[test]
    fn what_exceeds_a_limit_changes_nothing(
        steps in steps(), nodes in 1..60_usize, objects in 1..80_usize, pairs in 1..900_usize,
    ) {
        let mut inventory = Inventory::new(limits(nodes, objects, pairs));
        let mut plain = Plain::new();
        let model = ModelTensors::try_new((0..110).map(|number| (id(number), size(number)))).unwrap();
        for step in steps {
            if let Step::Set(node, has) = &step {
                let ids: Vec<ObjectId> = has.iter().map(|&number| id(number)).collect();
                if inventory.clone().set_node(&format!("n{node}"), &ids).is_err() {
                    inventory.set_node(&format!("n{node}"), &ids).unwrap_err();
                    continue;
                }
            }
            apply(&mut inventory, &mut plain, step);
            prop_assert!(plain.len() <= nodes && inventory.object_count() <= objects);
            prop_assert!(inventory.pair_count() <= pairs);
        }
        for (node, has) in &plain {
            let resident: u64 = has.iter().map(|&number| size(number)).sum();
            prop_assert_eq!(inventory.theta(&model, node).unwrap().resident_bytes, resident);
        }
        prop_assert_eq!(inventory.nodes().count(), plain.len());
    }
}

#[test]
fn an_update_that_does_not_fit_says_what_would_be_too_many() {
    let mut inventory = Inventory::new(limits(1, 3, 2));
    inventory.set_node("a", &[id(1), id(2)]).unwrap();
    for (node, has, says) in [
        ("b", vec![], "node b: found 2 nodes, expected at most 1"),
        (
            "a",
            vec![id(3), id(4)],
            "node a: found 4 objects, expected at most 3",
        ),
        (
            "a",
            vec![id(1), id(2), id(3)],
            "node a: found 3 pairs of node and object, expected at most 2",
        ),
    ] {
        let error = inventory.set_node(node, &has).unwrap_err();
        assert_eq!(error.to_string(), says);
    }
    assert_eq!(
        inventory.theta(&ModelTensors::try_new([(id(1), 5)]).unwrap(), "b"),
        None
    );
    assert_eq!(
        inventory.set_node("a", &[id(2)]),
        Ok(Change {
            added: 0,
            removed: 1
        })
    );
}

#[test]
fn numbers_of_forgotten_nodes_and_objects_are_used_again() {
    let mut inventory = Inventory::new(InventoryLimits::default());
    inventory.set_node("first", &[id(0)]).unwrap();
    let round = |inventory: &mut Inventory, turn: u16| {
        let has: Vec<ObjectId> = (turn * 50..turn * 50 + 50).map(id).collect();
        inventory.set_node(&format!("n{turn}"), &has).unwrap();
        assert!(inventory.remove_node(&format!("n{turn}")));
    };
    (0..4).for_each(|turn| round(&mut inventory, turn));
    let after_four = inventory.memory_bytes();
    (4..200).for_each(|turn| round(&mut inventory, turn));
    assert_eq!(inventory.memory_bytes(), after_four);
    assert_eq!((inventory.object_count(), inventory.pair_count()), (1, 1));
}

#[test]
fn two_inventories_at_their_limits_fit_three_quarters_of_the_containers_memory() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/base/scaler/deployment.yaml"
    );
    let manifest = std::fs::read_to_string(path).unwrap();
    let (_, limits) = manifest.split_once("limits:").unwrap();
    let (_, memory) = limits.split_once("memory: ").unwrap();
    let (mib, _) = memory.split_once("Mi\n").unwrap();
    let limit = mib.parse::<usize>().unwrap() << 20;
    let limits = InventoryLimits::for_memory(limit as u64);
    assert_eq!(limits, InventoryLimits::default());
    // A new list of a node copies the inventory while a decision reads the old one.
    let most = 2 * limits.most_bytes();
    assert!(
        most <= limit / 4 * 3,
        "found {most} bytes, the limit is {limit}"
    );
}

proptest! {
    #[test]
    fn limits_follow_the_memory(memory in InventoryLimits::LEAST_MEMORY..1 << 46, more in 0..1_u64 << 46) {
        let limits = InventoryLimits::for_memory(memory);
        prop_assert!(2 * limits.most_bytes() as u64 <= memory / 4 * 3, "{limits:?}");
        let larger = InventoryLimits::for_memory(memory + more);
        prop_assert!(larger.pairs >= limits.pairs);
        prop_assert!(larger.objects >= limits.objects && u32::try_from(larger.objects).is_ok());
        prop_assert!(larger.nodes >= limits.nodes && larger.nodes <= MAX_NODES);
    }
}

#[test]
fn limits_have_a_floor_and_a_ceiling() {
    let least = InventoryLimits::for_memory(InventoryLimits::LEAST_MEMORY);
    assert_eq!(least, limits(1_250, 37_500, 2_500_000));
    assert_eq!(InventoryLimits::for_memory(0), least);
    let most = InventoryLimits::for_memory(u64::MAX);
    assert_eq!((most.nodes, most.objects), (MAX_NODES, u32::MAX as usize));
}

/// Objects that many nodes have, and objects of one node, at the limits of the least container.
#[test]
fn an_inventory_at_its_limits_takes_no_more_than_it_says() {
    let limits = InventoryLimits::for_memory(InventoryLimits::LEAST_MEMORY);
    let mut inventory = Inventory::new(limits);
    let per_node = limits.pairs / limits.nodes;
    let shared: Vec<ObjectId> = (0..per_node)
        .map(|n| ObjectId::of(&n.to_le_bytes()))
        .collect();
    for node in 0..limits.nodes {
        inventory
            .set_node(&format!("node-{node}"), &shared)
            .unwrap();
    }
    assert!(inventory.memory_bytes() <= limits.most_bytes());
    let own_objects = limits.objects / limits.nodes;
    let mut inventory = Inventory::new(limits);
    for node in 0..limits.nodes {
        let numbers = node * own_objects..(node + 1) * own_objects;
        let ids: Vec<ObjectId> = numbers.map(|n| ObjectId::of(&n.to_le_bytes())).collect();
        inventory.set_node(&format!("node-{node}"), &ids).unwrap();
    }
    assert_eq!(inventory.object_count(), own_objects * limits.nodes);
    assert!(inventory.memory_bytes() <= limits.most_bytes());
}
