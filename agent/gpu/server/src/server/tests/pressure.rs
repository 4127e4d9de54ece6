//! Memory that other programs take, and clients that wait for their chunks.

use std::time::Instant;

use super::*;
use crate::residency::{ClientId, Refusal};

fn capacity(fixture: &Fixture) -> u64 {
    let state = fixture.core.state();
    state.manager.usage(DEVICE).unwrap().capacity_bytes
}

/// A client gets its chunks while others' objects wait for their copies.
#[test]
fn chunks_are_made_before_the_copies_of_others() {
    let mut fixture = Fixture::new();
    let first = fixture.admit(&[fixture.object(1, 3000)]);
    let second = fixture.admit(&[fixture.object(2, 3000)]);
    let (_sender, copies) = fixture.make();
    for client in [&first, &second] {
        let mut state = fixture.core.state();
        assert!(state.chunks(client.held.client, &importer()).is_some());
    }
    assert_eq!(fixture.core.metrics.counters().copied_objects, 0);
    assert_eq!(copies.try_iter().count(), 2);
}

/// The memory of a killed process comes late.
#[test]
fn a_chunk_is_asked_for_until_the_device_has_memory() {
    let mut fixture = Fixture::new();
    fixture.patience = Duration::from_secs(50);
    let other = fixture.device.create(8 << 20).unwrap();
    let client = fixture.admit(&[fixture.object(1, 1000)]);
    let core = Arc::clone(&fixture.core);
    let frees = std::thread::spawn(move || {
        while core.metrics.counters().retried_chunks == 0 {
            std::thread::yield_now();
        }
        drop(other);
    });
    let fixture = fixture.work();
    frees.join().unwrap();
    let post = client.mailbox.take();
    assert!(post.complete && post.failed.is_none(), "{:?}", post.failed);
    assert_eq!(fixture.core.metrics.counters().failed_transfers, 0);
}

#[test]
fn idle_models_leave_for_memory_that_other_programs_took() {
    let fixture = Fixture::new();
    let idle = fixture.admit(&[fixture.object(1, 4000)]);
    let fixture = fixture.work();
    fixture.core.end(idle.held.client);
    // The server counts on 8 MiB.
    let other = fixture.device.create(4 << 20).unwrap();
    let client = fixture.admit(&[fixture.object(2, 4000)]);
    let fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    let counters = fixture.core.metrics.counters();
    assert_eq!((counters.evicted, counters.yielded), (1, 1));
    assert_eq!(capacity(&fixture), 4 << 20);
    drop(other);
    fixture.core.state().check_devices();
    assert_eq!(capacity(&fixture.work()), 8 << 20);
}

#[test]
fn a_load_without_memory_is_refused_and_the_capacity_follows() {
    let fixture = Fixture::new();
    let other = fixture.device.create(6 << 20).unwrap();
    let client = fixture.admit(&[fixture.object(1, 4000)]);
    let fixture = fixture.work();
    let (reason, text) = client.mailbox.take().failed.unwrap();
    assert_eq!(reason, Reason::DEVICE_FULL);
    assert!(text.contains("processes beside the mirror"), "{text}");
    assert_eq!(capacity(&fixture), 2 << 20);
    // Now it is refused at once, and may wait.
    let refusal = fixture.try_admit(&[fixture.object(1, 4000)]).unwrap_err();
    assert!(matches!(refusal, Refusal::Taken { .. }), "{refusal}");
    assert!(refusal.may_wait());
    let large = fixture.try_admit(&[fixture.object(2, 9000)]).unwrap_err();
    assert!(matches!(large, Refusal::TooLarge { .. }), "{large}");
    assert!(!fixture.core.follow_pressed());
    drop(other);
    assert!(fixture.core.follow_pressed());
    let client = fixture.admit(&[fixture.object(1, 4000)]);
    let _fixture = fixture.work();
    assert!(client.mailbox.take().complete);
}

#[test]
fn a_driver_that_does_not_return_is_told_to_clients_that_wait_for_chunks() {
    let fixture = Fixture::new();
    let client = fixture.admit(&[fixture.object(1, 100)]);
    let hung = |client: ClientId| fixture.core.state().hung(client);
    assert_eq!(hung(client.held.client), None);
    let since = |ago| Instant::now().checked_sub(ago).unwrap();
    let make = |since| {
        let mut state = fixture.core.state();
        state.devices.get_mut(&DEVICE).unwrap().making = Some(since);
    };
    make(since(Duration::ZERO));
    assert_eq!(hung(client.held.client), None);
    make(since(Duration::from_mins(1)));
    let why = hung(client.held.client).unwrap();
    assert!(why.contains("device 3 has not answered for 60 s"), "{why}");
}
