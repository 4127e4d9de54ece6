//! Invariants under any sequence of events.

use proptest::prelude::*;
use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{GpuId, GpuModel, GpuPolicy, SharingRules, TorporRules};

use super::world::{MS, World, model, topology};

const GPUS: u32 = 4;

#[derive(Clone, Debug)]
enum Event {
    Offer(u32, Option<u64>),
    Wait(u64),
    Loaded(u32),
    Complete(u32, bool),
    Lose(u32),
    Restore(u32),
    Suspend(u32),
    GiveBack(u32),
    Cancel(usize),
    Observe(u32, Vec<u32>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gpu = 0..GPUS;
    let slo = proptest::option::weighted(0.7, 0..2_000 * MS);
    let one = prop_oneof![
        10 => (0..8_u32, slo).prop_map(|(model, slo)| Event::Offer(model, slo)),
        4 => (0..400 * MS).prop_map(Event::Wait),
        6 => gpu.clone().prop_map(Event::Loaded),
        8 => (gpu.clone(), proptest::bool::weighted(0.9)).prop_map(|(at, served)| Event::Complete(at, served)),
        1 => gpu.clone().prop_map(Event::Lose),
        1 => gpu.clone().prop_map(Event::Restore),
        1 => gpu.clone().prop_map(Event::Suspend),
        1 => gpu.clone().prop_map(Event::GiveBack),
        1 => (0..64_usize).prop_map(Event::Cancel),
        1 => (gpu, proptest::collection::vec(0..8_u32, 0..4)).prop_map(|(at, there)| Event::Observe(at, there)),
    ];
    proptest::collection::vec(one, 0..160)
}

/// Eight models in three families, of which a GPU of 1,000 MB holds two to four.
fn models() -> Vec<GpuModel> {
    (0..8_u64)
        .map(|number| {
            model(&[
                (number % 3, 100 + 100 * (number % 3)),
                (10 + number, 50 + 60 * number),
            ])
        })
        .collect()
}

fn policies() -> Vec<GpuPolicy> {
    vec![
        GpuPolicy::LoadBalancing,
        GpuPolicy::LALB,
        GpuPolicy::LocalityAware {
            overtaking_limit: 3,
        },
        GpuPolicy::LALBO3,
        GpuPolicy::Torpor(TorporRules::default()),
        GpuPolicy::Torpor(TorporRules {
            rejects_late: true,
            ..TorporRules::default()
        }),
        GpuPolicy::Torpor(TorporRules {
            by_required_count: false,
            avoids_interference: false,
            evicts_light_first: false,
            ..TorporRules::default()
        }),
        GpuPolicy::Sharing(SharingRules::default()),
        GpuPolicy::Sharing(SharingRules {
            overtaking_limit: 2,
            rejects_late: false,
            ..SharingRules::default()
        }),
    ]
}

fn happens(world: &mut World, event: &Event) {
    match *event {
        Event::Offer(model, slo) => {
            world.offer(model, slo);
        }
        Event::Wait(us) => world.now_us += us,
        Event::Loaded(gpu) => world.loaded(GpuId(gpu)),
        Event::Complete(gpu, true) => world.complete(GpuId(gpu), Outcome::Served),
        Event::Complete(gpu, false) => world.complete(GpuId(gpu), Outcome::Failed),
        Event::Lose(gpu) => world.lose(GpuId(gpu)),
        Event::Restore(gpu) => world.restore(GpuId(gpu)),
        Event::Suspend(gpu) => world.suspend(GpuId(gpu)),
        Event::GiveBack(gpu) => world.give_back(GpuId(gpu)),
        Event::Cancel(at) => world.cancel(at),
        Event::Observe(gpu, ref there) => world.observe(GpuId(gpu), there),
    }
}

/// Restores all GPUs and serves what waits.
fn drain(world: &mut World) {
    for gpu in 0..GPUS {
        world.restore(GpuId(gpu));
    }
    while !world.waiting.is_empty() || !world.running.is_empty() {
        let before = world.served.len();
        world.reject();
        world.dispatch();
        world.now_us += 50 * MS;
        for gpu in 0..GPUS {
            world.complete(GpuId(gpu), Outcome::Served);
        }
        let ended = world.served.len() > before || world.waiting.is_empty();
        assert!(ended, "{:?} is stuck", world.policy);
    }
}

proptest! {
    #[test]
    fn every_request_is_served_once_within_the_memory_of_its_gpu(events in events()) {
        for policy in policies() {
            let mut world = World::new(policy, topology(GPUS, 1_000), models());
            for event in &events {
                happens(&mut world, event);
                world.reject();
                world.dispatch();
            }
            drain(&mut world);
            let ended = world.served.len() + world.refused + world.left;
            prop_assert_eq!(ended as u64, world.offered());
        }
    }

    #[test]
    fn no_request_is_overtaken_more_often_than_the_limit(events in events(), limit in 0..6_u32) {
        let ours = SharingRules { overtaking_limit: limit, ..SharingRules::default() };
        let lalbo3 = GpuPolicy::LocalityAware { overtaking_limit: limit };
        for policy in [lalbo3, GpuPolicy::Sharing(ours)] {
            let mut world = World::new(policy, topology(GPUS, 1_000), models());
            for event in &events {
                happens(&mut world, event);
                world.dispatch();
                prop_assert!(world.scheduler.most_overtaken() <= limit);
            }
        }
    }

    #[test]
    fn no_gpu_is_idle_while_a_request_is_bound_to_none(events in events()) {
        for policy in [GpuPolicy::LoadBalancing, GpuPolicy::LALB, GpuPolicy::LALBO3] {
            let mut world = World::new(policy, topology(GPUS, 1_000), models());
            for event in &events {
                happens(&mut world, event);
                world.dispatch();
                prop_assert!(world.scheduler.idle_gpus() == 0 || world.scheduler.unbound() == 0);
            }
        }
    }
}
