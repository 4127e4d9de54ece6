//! Nodes of instances that wait for one.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tetris_scaler_core::{
    FunctionView, InstanceView, Inventory, NodeView, Phase, Settings, View, Waiting, assign,
};

use crate::decision::cases::{Row, function, model, node, ready, tensor};

/// Functions, nodes and instances, some of which wait.
#[derive(Clone, Debug)]
struct Scene {
    functions: Vec<FunctionView>,
    nodes: Vec<NodeView>,
    instances: Vec<InstanceView>,
    waiting: Vec<Waiting>,
    inventory: Inventory,
    settings: Settings,
}

impl Scene {
    fn view(&self) -> View<'_> {
        View {
            functions: &self.functions,
            instances: &self.instances,
            nodes: &self.nodes,
            inventory: &self.inventory,
        }
    }

    fn assign(&self) -> Vec<Option<usize>> {
        let places = assign(&self.view(), &self.waiting, &self.settings).into_iter();
        places.map(|place| place.map(|place| place.node)).collect()
    }

    /// Returns CPU and private memory of an instance.
    fn needs(&self, instance: usize) -> (u64, u64) {
        let instance = &self.instances[instance];
        let all = self.functions[instance.function]
            .model
            .profile
            .configurations();
        let configuration = instance.configuration.and_then(|at| all.get(at));
        configuration.map_or((0, 0), |entry| (entry.cpu_millis(), entry.own_bytes()))
    }

    /// Returns what is left of a node's CPU and memory, `None` if it gave more than it has.
    fn left(&self, at: usize, assigned: &[Option<usize>]) -> Option<(u64, u64)> {
        let waits: BTreeSet<usize> = self
            .waiting
            .iter()
            .map(|waiting| waiting.instance)
            .collect();
        let running = (0..self.instances.len())
            .filter(|entry| !waits.contains(entry) && self.instances[*entry].node == Some(at));
        let placed = self.waiting.iter().zip(assigned);
        let placed = placed.filter(|(_, node)| **node == Some(at));
        let mut left = (
            self.nodes[at].free.cpu_millis,
            self.nodes[at].free.memory_bytes,
        );
        for entry in running.chain(placed.map(|(placed, _)| placed.instance)) {
            let (cpu, memory) = self.needs(entry);
            left = (left.0.checked_sub(cpu)?, left.1.checked_sub(memory)?);
        }
        Some(left)
    }
}

const ROWS: [Row; 2] = [(1_000, 40, 10, 500), (3_000, 90, 40, 500)];

fn waiting(function: usize, configuration: usize) -> InstanceView {
    InstanceView {
        function,
        phase: Phase::Starting,
        node: None,
        ..ready("waits", configuration, 0, 0)
    }
}

fn scene(waits: usize, nodes: &[(u64, u64)]) -> Scene {
    let nodes = nodes.iter().enumerate();
    let nodes = nodes.map(|(at, &(cpu, memory))| node(&format!("node-{at}"), cpu, memory));
    Scene {
        settings: Settings::default(),
        functions: vec![function(model("m", &ROWS, &[(1, 500)]), 10)],
        nodes: nodes.collect(),
        instances: (0..waits).map(|_| waiting(0, 0)).collect(),
        waiting: (0..waits)
            .map(|instance| Waiting {
                instance,
                ..Waiting::default()
            })
            .collect(),
        inventory: Inventory::default(),
    }
}

#[test]
fn instances_share_the_tensors_of_one_node() {
    let scene = scene(3, &[(32_000, 4_000), (32_000, 4_000), (32_000, 4_000)]);
    let assigned = scene.assign();
    assert!(assigned[0].is_some());
    assert!(
        assigned.iter().all(|node| *node == assigned[0]),
        "{assigned:?}"
    );
}

#[test]
fn the_node_with_the_tensors_is_taken() {
    let mut scene = scene(2, &[(32_000, 4_000), (32_000, 4_000)]);
    scene.inventory.set_node("node-1", &[tensor(1)]).unwrap();
    assert_eq!(scene.assign(), [Some(1), Some(1)]);
}

#[test]
fn a_planned_node_is_kept_while_it_has_room_and_is_not_excluded() {
    let mut scene = scene(3, &[(32_000, 4_000), (1_500, 4_000)]);
    for entry in &mut scene.waiting {
        entry.planned = Some(1);
    }
    assert_eq!(scene.assign(), [Some(1), Some(0), Some(0)]);
    scene.waiting[0].excluded.insert(1);
    assert_eq!(scene.assign(), [Some(0), Some(1), Some(0)]);
    scene.nodes[1].accepts_new = false;
    assert_eq!(scene.assign(), [Some(0), Some(0), Some(0)]);
}

#[test]
fn without_room_for_all_as_many_as_possible_get_a_node() {
    let scene = scene(5, &[(2_000, 4_000), (1_000, 4_000)]);
    let assigned = scene.assign();
    assert_eq!(assigned.iter().flatten().count(), 3, "{assigned:?}");
}

#[test]
fn an_instance_of_an_unknown_configuration_gets_no_node() {
    let mut scene = scene(2, &[(32_000, 4_000)]);
    scene.instances[0].configuration = None;
    assert_eq!(scene.assign(), [None, Some(0)]);
}

fn scenes() -> impl Strategy<Value = Scene> {
    let nodes = proptest::collection::vec((0..12_000_u64, 0..4_000_u64, any::<bool>()), 1..6);
    let instance = (0..2_usize, 0..2_usize, proptest::option::of(0..6_usize));
    let instances = proptest::collection::vec((instance, any::<bool>()), 0..24);
    let excluded = proptest::collection::btree_set(0..6_usize, 0..3);
    let wishes = proptest::collection::vec((proptest::option::of(0..8_usize), excluded), 24);
    let resident = proptest::collection::vec(0..6_usize, 0..3);
    let part = prop_oneof![Just(Settings::default().part_functions), Just(1)];
    let all = (nodes, instances, wishes, resident, part);
    all.prop_map(|(nodes, instances, wishes, resident, part)| {
        let sizes: Vec<(u64, u64)> = nodes.iter().map(|node| (node.0, node.1)).collect();
        let mut scene = scene(0, &sizes);
        scene.settings.part_functions = part;
        scene
            .functions
            .push(function(model("n", &ROWS, &[(1, 500), (2, 100)]), 10));
        for (at, (_, _, accepts)) in nodes.iter().enumerate() {
            scene.nodes[at].accepts_new = *accepts;
        }
        for at in resident.into_iter().filter(|at| *at < nodes.len()) {
            let name = format!("node-{at}");
            scene.inventory.set_node(&name, &[tensor(1)]).unwrap();
        }
        for (number, ((function, configuration, on), waits)) in instances.into_iter().enumerate() {
            let mut instance = waiting(function, configuration);
            instance.name = format!("instance-{number:02}");
            // Those that run were placed where there was room.
            instance.node = on.filter(|node| !waits && *node < nodes.len());
            scene.instances.push(instance);
            if scene.instances[number]
                .node
                .is_some_and(|at| scene.left(at, &[]).is_none())
            {
                scene.instances[number].node = None;
            }
            if waits {
                let (planned, excluded) = wishes[number].clone();
                scene.waiting.push(Waiting {
                    instance: number,
                    planned,
                    excluded,
                });
            }
        }
        scene
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nodes_give_what_they_have_and_nobody_waits_beside_room(scene in scenes()) {
        let assigned = scene.assign();
        prop_assert_eq!(assigned.len(), scene.waiting.len());
        for (one, node) in scene.waiting.iter().zip(&assigned) {
            if let Some(node) = node {
                prop_assert!(scene.nodes[*node].accepts_new);
                prop_assert!(!one.excluded.contains(node));
            }
        }
        for at in 0..scene.nodes.len() {
            prop_assert!(scene.left(at, &assigned).is_some(), "node {} gives too much", at);
        }
        // At most the tensors of both functions.
        let tensors = 500 + 600;
        for (one, _) in scene.waiting.iter().zip(&assigned).filter(|(_, node)| node.is_none()) {
            let (cpu, memory) = scene.needs(one.instance);
            for at in (0..scene.nodes.len()).filter(|at| !one.excluded.contains(at)) {
                let left = scene.left(at, &assigned).unwrap();
                let fits = cpu <= left.0 && memory + tensors <= left.1;
                prop_assert!(!(scene.nodes[at].accepts_new && fits), "node {at} has room for {one:?}");
            }
        }
    }

    #[test]
    fn the_same_scene_has_the_same_nodes(scene in scenes()) {
        prop_assert_eq!(scene.assign(), scene.assign());
    }

    #[test]
    fn a_plan_with_room_is_carried_out_exactly(scene in scenes()) {
        let mut scene = scene;
        for entry in &mut scene.waiting {
            (entry.planned, entry.excluded) = (None, BTreeSet::new());
        }
        let planned = scene.assign();
        for (one, node) in scene.waiting.iter_mut().zip(&planned) {
            one.planned = *node;
        }
        // Those without a node may find room that tensors left.
        let again = scene.assign();
        for (planned, again) in planned.iter().zip(&again) {
            prop_assert!(planned.is_none() || planned == again, "{planned:?} {again:?}");
        }
    }
}
