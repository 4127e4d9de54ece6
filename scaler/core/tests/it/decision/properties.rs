//! Invariants of every decision, and of sequences of decisions.

use proptest::prelude::*;
use tetris_scaler_core::{Decision, FunctionOutcome, FunctionView, InstanceView, Rate, Settings};

use crate::decision::cases::{Row, function, model, node};
use crate::decision::world::World;

#[derive(Clone, Debug)]
enum Event {
    Decide,
    Control,
    Schedule(usize, usize),
    Ready(usize),
    Kill(usize),
    Load(usize, Option<u64>, Option<u64>),
    Busy(usize, u64),
    Consolidate(usize, bool),
    Allow(usize, Vec<usize>),
    Most(usize, u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let which = 0..64_usize;
    let load = proptest::option::weighted(0.9, 0..120_u64);
    let event = prop_oneof![
        6 => Just(Event::Decide),
        4 => Just(Event::Control),
        4 => (which.clone(), which.clone()).prop_map(|(pod, node)| Event::Schedule(pod, node)),
        4 => which.clone().prop_map(Event::Ready),
        1 => which.clone().prop_map(Event::Kill),
        3 => (which.clone(), load.clone(), load).prop_map(|(at, load, peak)| Event::Load(at, load, peak)),
        2 => (which.clone(), 0..50_u64).prop_map(|(pod, load)| Event::Busy(pod, load)),
        1 => (which.clone(), any::<bool>()).prop_map(|(at, yes)| Event::Consolidate(at, yes)),
        1 => (which.clone(), proptest::collection::vec(0..3_usize, 0..3)).prop_map(|(at, only)| Event::Allow(at, only)),
        1 => (which, 1..12_u32).prop_map(|(at, most)| Event::Most(at, most)),
    ];
    proptest::collection::vec(event, 0..60)
}

fn functions() -> impl Strategy<Value = Vec<FunctionView>> {
    // The last field is the latency: a configuration above a second is too slow.
    let row = (1..4_u64, 10..60_u64, 1..20_u32, 500..1_200_u64);
    let rows = proptest::collection::vec(row, 1..4);
    let tensors = proptest::collection::btree_set(0..5_u8, 1..4);
    let parts = (rows, tensors, 0..3_u32, 1..12_u32, 0..80_u64);
    let function = parts.prop_map(|(rows, tensors, least, most, rps)| {
        let rows: Vec<Row> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let rate = row.2 * 1_000 / row.3 as u32 + 3;
                (row.0 * 1_000 + at as u64, row.1, rate, row.3)
            })
            .collect();
        let tensors: Vec<(u8, u64)> = tensors
            .iter()
            .map(|&name| (name, u64::from(name) * 40 + 50))
            .collect();
        FunctionView {
            min_instances: least.min(most),
            max_instances: most,
            ..function(model("m", &rows, &tensors), rps)
        }
    });
    proptest::collection::vec(function, 1..4)
}

fn worlds() -> impl Strategy<Value = World> {
    let nodes = proptest::collection::vec((2..30_u64, 300..2_000_u64), 1..6);
    (functions(), nodes).prop_map(|(functions, nodes)| {
        let sizes = nodes.iter().enumerate();
        let nodes =
            sizes.map(|(at, &(cores, bytes))| node(&format!("n{at}"), cores * 1_000, bytes));
        World::new(functions, nodes.collect())
    })
}

impl World {
    fn happens(&mut self, event: &Event, settings: &Settings) {
        let (pods, functions) = (self.pods.len().max(1), self.functions.len());
        match event {
            Event::Decide => {
                let instances = self.instances();
                let decision = self.decide(&instances, settings);
                self.check(&instances, &decision);
                self.carry_out(&decision);
            }
            Event::Control => self.control(),
            Event::Schedule(pod, node) if !self.pods.is_empty() => self.schedule(pod % pods, *node),
            Event::Ready(pod) if !self.pods.is_empty() => self.finish_start(pod % pods),
            Event::Kill(pod) if !self.pods.is_empty() => {
                self.pods.remove(pod % pods);
            }
            Event::Busy(pod, load) if !self.pods.is_empty() => self.pods[pod % pods].load = *load,
            Event::Load(at, load, peak) => {
                let function = &mut self.functions[at % functions];
                (function.load, function.peak) =
                    (load.map(Rate::from_rps), peak.map(Rate::from_rps));
            }
            Event::Consolidate(at, yes) => self.functions[at % functions].consolidate = *yes,
            Event::Allow(at, only) => {
                let function = &mut self.functions[at % functions];
                std::sync::Arc::make_mut(&mut function.model)
                    .allowed
                    .clone_from(only);
            }
            Event::Most(at, most) => {
                let function = &mut self.functions[at % functions];
                function.max_instances = *most;
                function.min_instances = function.min_instances.min(*most);
            }
            Event::Schedule(..) | Event::Ready(_) | Event::Kill(_) | Event::Busy(..) => {}
        }
    }

    /// Checks the invariants of a decision.
    fn check(&self, instances: &[InstanceView], decision: &Decision) {
        for (at, item) in decision.functions.iter().enumerate() {
            let function = &self.functions[at];
            let of: Vec<&InstanceView> = instances
                .iter()
                .filter(|instance| instance.function == at)
                .collect();
            let live = of
                .iter()
                .filter(|entry| entry.phase != tetris_scaler_core::Phase::Leaving)
                .count() as u32;
            let (wanted, started): (u32, u32) =
                (item.replicas.values().sum(), item.start.values().sum());
            assert!(
                wanted <= function.max_instances,
                "{wanted} are more than the maximum: {item:?}"
            );
            assert_eq!(
                wanted,
                live + started - item.release.len() as u32,
                "{item:?}"
            );
            if live >= function.min_instances
                && !matches!(item.outcome, FunctionOutcome::MakingRoom { .. })
            {
                assert!(wanted >= function.min_instances, "{item:?}");
            }
            assert!(item.start.is_empty() || item.release.is_empty(), "{item:?}");
            let forced = live > function.max_instances
                || matches!(item.outcome, FunctionOutcome::MakingRoom { .. });
            if !item.release.is_empty() && !forced && item.capacity > Rate::ZERO {
                let load = function
                    .load
                    .expect("nothing goes while the load is not known");
                assert!(
                    item.ready >= function.scale_in.residual(load, Rate::ZERO),
                    "{item:?}"
                );
            }
            // A start needs a missing capacity or a missing minimum.
            if started > 0 && item.retiring.is_empty() {
                let missing = item.needed > Rate::ZERO
                    || live < function.min_instances
                    || function.min_instances > 0;
                assert!(missing, "{item:?}");
            }
            assert_eq!(item.ranking.len(), of.len());
            for (configuration, nodes) in &item.preferred {
                let planned: u32 = nodes.iter().map(|node| node.planned).sum();
                assert!(
                    planned <= item.start[configuration]
                        && nodes.iter().all(|node| node.score <= 1_000)
                );
            }
            assert!(!item.outcome.to_string().is_empty());
        }
    }

    /// Executes decisions and lets pods start until nothing changes. Returns the number of
    /// decisions, or `None` after 60.
    fn settle(&mut self, settings: &Settings) -> Option<usize> {
        for round in 0..60 {
            let instances = self.instances();
            let decision = self.decide(&instances, settings);
            self.check(&instances, &decision);
            let changed = self.carry_out(&decision);
            self.control();
            let pods = self.pods.len();
            for at in 0..pods {
                self.schedule(at, at * 7 + round);
            }
            for at in 0..pods {
                self.finish_start(at);
            }
            if !changed && self.instances() == instances {
                return Some(round);
            }
        }
        None
    }
}

/// Ends consolidation, and makes each load constant for a window.
fn steady(world: &mut World) {
    for function in &mut world.functions {
        let load = function.load.unwrap_or_default();
        (function.load, function.peak) = (Some(load), Some(load));
        function.consolidate = false;
    }
}

/// Plans for all functions together, or in parts.
fn settings() -> impl Strategy<Value = Settings> {
    let default = Settings::default().part_functions;
    prop_oneof![Just(default), 1..4_u32].prop_map(|part_functions| Settings {
        part_functions,
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_happens_decisions_come_to_rest(world in worlds(), events in events(), settings in settings()) {
        let mut world = world;
        for event in &events {
            world.happens(event, &settings);
        }
        steady(&mut world);
        let rounds = world.settle(&settings);
        prop_assert!(rounds.is_some(), "no rest: {:?}", world.decide(&world.instances(), &settings));
        // Decide once more on the same state.
        let instances = world.instances();
        let decision = world.decide(&instances, &settings);
        prop_assert!(!world.carry_out(&decision));
        for (at, entry) in decision.functions.iter().enumerate() {
            let waits = world.pods.iter().any(|pod| pod.function == at && pod.node.is_none());
            let function = &world.functions[at];
            let usable = !matches!(entry.outcome, FunctionOutcome::SloTooTight(_) | FunctionOutcome::NoConfiguration);
            if usable && !waits && !matches!(entry.outcome, FunctionOutcome::AtMaximum { .. }) {
                prop_assert!(world.ready_rate(at) >= entry.needed, "{:?}", entry);
                prop_assert!(entry.replicas.values().sum::<u32>() >= function.min_instances);
            }
            if function.load == Some(Rate::ZERO) && function.min_instances == 0 {
                prop_assert_eq!(entry.replicas.values().sum::<u32>(), 0);
            }
        }
    }

    #[test]
    fn the_same_state_gives_the_same_decision_in_any_order(
        world in worlds(), events in events(), settings in settings(), turn in 0..10_usize,
    ) {
        let mut world = world;
        for event in &events {
            world.happens(event, &settings);
        }
        let instances = world.instances();
        let decision = world.decide(&instances, &settings);
        // Permute nodes and instances.
        let mut other = world.clone();
        let nodes = other.nodes.len();
        other.nodes.rotate_left(turn % nodes);
        let mut turned = instances.clone();
        for entry in &mut turned {
            entry.node = entry.node.map(|node| (node + nodes - turn % nodes) % nodes);
        }
        turned.reverse();
        let again = other.decide(&turned, &settings);
        for (one, two) in decision.functions.iter().zip(&again.functions) {
            let names = |of: &[InstanceView], list: &[usize]| -> Vec<String> {
                list.iter().map(|&at| of[at].name.clone()).collect()
            };
            prop_assert_eq!(&one.replicas, &two.replicas);
            prop_assert_eq!(&one.outcome, &two.outcome);
            prop_assert_eq!(names(&instances, &one.release), names(&turned, &two.release));
            prop_assert_eq!(names(&instances, &one.retiring), names(&turned, &two.retiring));
            prop_assert_eq!(names(&instances, &one.ranking), names(&turned, &two.ranking));
            for (configuration, list) in &one.preferred {
                let list = list.iter().map(|entry| (&world.nodes[entry.node].name, entry.score, entry.planned));
                let same = two.preferred[configuration].iter();
                let same = same.map(|same| (&other.nodes[same.node].name, same.score, same.planned));
                prop_assert!(list.eq(same));
            }
        }
    }

    #[test]
    fn consolidation_saves_memory_and_ends(world in worlds(), settings in settings()) {
        let (mut world, settings) = (world, Settings { start_cost_bytes: 1, ..settings });
        prop_assume!(world.settle(&settings).is_some());
        let waits = world.pods.iter().any(|pod| pod.node.is_none());
        prop_assume!(!waits);
        for function in &mut world.functions {
            function.consolidate = true;
        }
        let instances = world.instances();
        let decision = world.decide(&instances, &settings);
        let before = world.totals(&decision_of_nothing(&world, &settings), &instances);
        let planned = world.totals(&decision, &instances);
        let moving = decision.functions.iter().any(|function| !function.retiring.is_empty());
        if moving {
            prop_assert!(planned.cost < before.cost, "{:?} {:?}", planned, before);
        }
        if decision.functions.iter().all(|function| function.capacity >= function.needed) {
            prop_assert!(planned.lower_bound <= planned.cost);
        }
        // After execution it settles without the replaced instances, none of which went too early.
        world.carry_out(&decision);
        for function in &mut world.functions {
            function.consolidate = false;
        }
        prop_assert!(world.settle(&settings).is_some());
        prop_assert!(world.pods.iter().all(|pod| !pod.retiring));
    }
}

fn decision_of_nothing(world: &World, settings: &Settings) -> Decision {
    let mut still = world.clone();
    for function in &mut still.functions {
        function.consolidate = false;
    }
    still.decide(&still.instances(), settings)
}

impl World {
    fn totals(
        &self,
        decision: &Decision,
        instances: &[InstanceView],
    ) -> tetris_scaler_core::Totals {
        decision.totals(&tetris_scaler_core::View {
            functions: &self.functions,
            instances,
            nodes: &self.nodes,
            inventory: &self.inventory,
        })
    }
}
