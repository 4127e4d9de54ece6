//! Invariants of policies under any sequence of events.

use proptest::prelude::*;
use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{GpuId, GpuModel, GpuPolicy};

use crate::gpu_world::{MS, World, model, topology};

const GPUS: u32 = 4;

/// Something that happens to a scheduler.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request for a model comes, with its SLO in microseconds.
    Offer(u32, Option<u64>),
    /// Microseconds pass.
    Wait(u64),
    /// The load of a GPU's request ends.
    Loaded(u32),
    /// A GPU's request ends: served if true.
    Complete(u32, bool),
    /// The executor of a GPU is lost.
    Lose(u32),
    /// It is there again.
    Restore(u32),
    /// The executor of a GPU does not answer.
    Suspend(u32),
    /// Nothing of a GPU's request was executed.
    GiveBack(u32),
    /// The client of some request leaves.
    Cancel(usize),
    /// The executor of a GPU reports the models in its memory.
    Observe(u32, Vec<u32>),
}

/// Up to 160 events.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let gpu = 0..GPUS;
    let slo = proptest::option::weighted(0.7, 0..2_000 * MS);
    let event = prop_oneof![
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
    proptest::collection::vec(event, 0..160)
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

/// Checks that every request is served once, within the memory of its GPU, or refused, or left.
pub fn every_request_ends_once(policy: impl GpuPolicy + 'static, events: &[Event]) {
    let mut world = World::new(policy, topology(GPUS, 1_000), models());
    for event in events {
        happens(&mut world, event);
        world.reject();
        world.dispatch();
    }
    drain(&mut world);
    let ended = world.served.len() + world.refused + world.left;
    assert_eq!(ended as u64, world.offered());
}

/// Checks that no request is overtaken more often than `limit`.
pub fn overtaking_stays_within(limit: u32, policy: impl GpuPolicy + 'static, events: &[Event]) {
    let mut world = World::new(policy, topology(GPUS, 1_000), models());
    for event in events {
        happens(&mut world, event);
        world.dispatch();
        assert!(world.scheduler.most_overtaken() <= limit);
    }
}

/// Checks that no GPU is idle while a request is bound to none.
pub fn no_gpu_is_idle_in_vain(policy: impl GpuPolicy + 'static, events: &[Event]) {
    let mut world = World::new(policy, topology(GPUS, 1_000), models());
    for event in events {
        happens(&mut world, event);
        world.dispatch();
        assert!(world.scheduler.idle_gpus() == 0 || world.scheduler.unbound() == 0);
    }
}
