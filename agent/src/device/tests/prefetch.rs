//! Models that the mirror holds for this process without mapping them, and the state of a device.

use std::path::Path;
use std::time::Instant;

use super::served::{LONG, MIB, World};
use crate::device::{
    DeviceError, DeviceOptions, ModelState, Prefetch, PrefetchOptions, PrefetchState, Target,
};

fn prefetch(world: &World, path: &Path) -> Prefetch {
    let options = PrefetchOptions::default();
    world
        .registry
        .prefetch(&world.agent, path, options)
        .unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "expected that {what}");
        std::thread::yield_now();
    }
}

fn state(world: &World) -> Vec<(ModelState, u64)> {
    let view = world.registry.describe(&world.agent, None, LONG).unwrap();
    let models = view.models.iter();
    models
        .map(|model| (model.state, model.bytes_left))
        .collect()
}

#[test]
fn a_prefetched_model_is_held_and_a_load_copies_nothing() {
    let world = World::new(64);
    let path = world.file(1..4);
    assert_eq!(state(&world), []);
    let prefetched = prefetch(&world, &path);
    assert!(prefetched.wait(LONG).unwrap());
    assert_eq!(prefetched.state(), PrefetchState::Resident);
    let bytes = 3 * MIB as u64;
    assert_eq!((prefetched.bytes(), prefetched.bytes_left()), (bytes, 0));
    assert_eq!(world.leases(), 1);
    assert_eq!(state(&world), [(ModelState::Resident, 0)]);
    let view = world.registry.describe(&world.agent, None, LONG).unwrap();
    assert_eq!(Some(view.models[0].model), prefetched.model());
    assert_eq!(view.transfers, []);
    let before = world.server.counters();
    let options = DeviceOptions::new(Target::Simulated);
    let model = world.registry.load(&world.agent, &path, &options).unwrap();
    assert!(model.wait(LONG).unwrap());
    let after = world.server.counters();
    assert_eq!(after.copied_objects, before.copied_objects);
    assert_eq!((before.prefetches, after.prefetches), (1, 1));
    assert_eq!(state(&world).len(), 1, "the same model");
    drop(model);
    prefetched.close();
    assert_eq!(prefetched.state(), PrefetchState::Closed);
    assert!(matches!(
        *prefetched.wait(LONG).unwrap_err(),
        DeviceError::Cancelled
    ));
    world.nothing_is_held();
    assert_eq!(
        state(&world),
        [(ModelState::Resident, 0)],
        "it was not evicted"
    );
}

#[test]
fn a_prefetch_waits_for_room_and_its_close_makes_room() {
    let world = World::new(8);
    let (first, second) = (world.file(1..6), world.file(10..16));
    let prefetched = prefetch(&world, &first);
    assert!(prefetched.wait(LONG).unwrap());
    let waiting = prefetch(&world, &second);
    until("it waits", || waiting.state() == PrefetchState::Waiting);
    assert_eq!(waiting.bytes_left(), 6 * MIB as u64);
    drop(prefetched);
    assert!(waiting.wait(LONG).unwrap());
    let bytes = 5 * MIB as u64;
    assert_eq!(
        state(&world),
        [(ModelState::Absent, bytes), (ModelState::Resident, 0)]
    );
    drop(waiting);
    world.nothing_is_held();
}

#[test]
fn a_prefetch_that_waits_can_be_closed() {
    let world = World::new(8);
    let prefetched = prefetch(&world, &world.file(1..6));
    assert!(prefetched.wait(LONG).unwrap());
    let waiting = prefetch(&world, &world.file(10..16));
    until("it waits", || waiting.state() == PrefetchState::Waiting);
    drop(waiting);
    let connections = || crate::device::status(&world.agent, LONG).unwrap().waiting;
    until("nobody waits", || connections() == 0);
    assert_eq!(prefetched.state(), PrefetchState::Resident);
}

#[test]
fn failures_have_their_reasons() {
    let world = World::new(8);
    let large = prefetch(&world, &world.file(1..20));
    let error = large.wait(LONG).unwrap_err();
    assert!(
        error.to_string().contains("larger than the device"),
        "{error}"
    );
    assert_eq!(large.state(), PrefetchState::Failed);
    let absent = prefetch(&world, Path::new("/absent/model.safetensors"));
    assert!(matches!(
        *absent.wait(LONG).unwrap_err(),
        DeviceError::Load(_)
    ));
    let options = PrefetchOptions {
        device: Some(7),
        ..PrefetchOptions::default()
    };
    let path = world.file(1..2);
    let nowhere = world.registry.prefetch(&world.agent, &path, options);
    let error = nowhere.unwrap_err();
    assert!(
        matches!(error, DeviceError::NoDevice { asked: 7, found: 1 }),
        "{error}"
    );
}

#[test]
fn a_prefetched_model_fails_when_the_mirror_ends() {
    let world = World::new(64);
    let prefetched = prefetch(&world, &world.file(1..4));
    assert!(prefetched.wait(LONG).unwrap());
    drop(world);
    until("it has failed", || {
        prefetched.state() == PrefetchState::Failed
    });
    assert!(prefetched.error().is_some());
}
