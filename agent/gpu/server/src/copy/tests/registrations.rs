//! Registrations between transfers, made by the test itself or by the registrar's thread.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::copy::link::LINK;
use tetris_gpu_device::HostBytes;

/// Objects of one piece each.
const MODEL: [u64; 6] = [10_000; 6];

/// Loads the model `times` times, with registrations between, and returns the bytes that came from
/// registered memory each time.
fn loads(fixture: &Fixture, executor: &mut Executor<HostDevice>, times: usize) -> Vec<u64> {
    let mut direct = Vec::new();
    for _ in 0..times {
        let report = fixture.run(executor).0.unwrap();
        direct.push(report.direct_bytes);
        executor.registrar().register_all();
    }
    direct
}

fn memory(len: usize) -> HostSlice {
    HostSlice::whole(Arc::new(vec![0u8; len]))
}

fn registrar(limit_bytes: u64, faults: Faults) -> Registrar<HostDevice> {
    let device = Arc::new(HostDevice::with_faults(0, faults));
    Registrar::with_lengths(device, limit_bytes, LENGTHS)
}

/// Far longer than any step takes: a timeout shows a fault.
const LONG: Duration = Duration::from_secs(50);

/// Waits for a condition that another thread brings about.
fn eventually(condition: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "it never comes");
        std::thread::yield_now();
    }
}

#[test]
fn the_first_load_registers_nothing_and_the_next_finds_its_memory_registered() {
    let fixture = Fixture::new(&MODEL, Faults::default());
    let mut executor = executor(&fixture, u64::MAX);
    let report = fixture.run(&mut executor).0.unwrap();
    let registrar = Arc::clone(executor.registrar());
    assert_eq!((report.direct_bytes, report.staged_bytes), (0, 60_000));
    assert_eq!((registrar.used_bytes(), registrar.take_uses().made), (0, 0));
    registrar.register_all();
    assert_eq!(registrar.used_bytes(), 60_000);
    assert_eq!(registrar.take_uses(), Uses { made: 6, reused: 0 });
    let report = fixture.run(&mut executor).0.unwrap();
    assert_eq!((report.direct_bytes, report.staged_bytes), (60_000, 0));
    registrar.register_all();
    assert_eq!(registrar.take_uses(), Uses { made: 0, reused: 6 });
}

#[test]
fn a_model_beyond_the_limit_keeps_its_registrations() {
    let fixture = Fixture::new(&MODEL, Faults::default());
    let mut executor = executor(&fixture, 45_000);
    let direct = loads(&fixture, &mut executor, 4);
    assert_eq!(direct, [0, 40_000, 40_000, 40_000]);
    let uses = executor.registrar().take_uses();
    assert_eq!(
        uses,
        Uses {
            made: 4,
            reused: 12
        }
    );
    assert_eq!(executor.registrar().used_bytes(), 40_000);
}

#[test]
fn memory_of_older_transfers_gives_way() {
    let registrar = registrar(250, Faults::default());
    let lengths = Lengths {
        piece_bytes: 4096,
        least_bytes: 1,
    };
    let registrar = Registrar::with_lengths(Arc::clone(registrar.device()), 250, lengths);
    let all = [100, 101, 102].map(memory);
    let [one, two, three] = &all;
    let is_there = |memory: &HostSlice| {
        let part = memory.part(10, 20).unwrap();
        registrar.find(&part, 0).is_some()
    };
    let load = |memory: &HostSlice| {
        let transfer = registrar.begin();
        if registrar.find(memory, transfer).is_none() {
            registrar.enqueue(memory, transfer);
            registrar.register_all();
        }
    };
    load(one);
    load(two);
    load(one);
    load(three);
    assert_eq!(all.each_ref().map(is_there), [true, false, true]);
    assert_eq!(registrar.used_bytes(), 202);
    // A copy uses the oldest one.
    let in_use = registrar.find(one, 0).unwrap();
    load(two);
    assert_eq!(all.each_ref().map(is_there), [true, true, false]);
    load(&memory(251));
    assert_eq!(registrar.used_bytes(), 201, "it is longer than the limit");
    drop(in_use);
    registrar.clear();
    assert_eq!(registrar.used_bytes(), 0);
    assert!(registrar.find(one, 0).is_none());
}

#[test]
fn an_object_is_registered_in_pieces_and_its_copies_are_split_there() {
    let registrar = registrar(u64::MAX, Faults::default());
    let object = memory(40_000);
    registrar.enqueue(&object.part(5, 9).unwrap(), registrar.begin());
    assert!(registrar.register_next());
    assert_eq!(registrar.used_bytes(), 16_384, "one piece at a time");
    assert!(
        registrar
            .find(&object.part(16_000, 384).unwrap(), 1)
            .is_some()
    );
    assert!(
        registrar
            .find(&object.part(16_000, 385).unwrap(), 1)
            .is_none()
    );
    registrar.register_all();
    assert_eq!(registrar.take_uses().made, 3);
    let part = object.part(16_000, 20_000).unwrap();
    let lengths = registrar.find(&part, 1).unwrap();
    let places = lengths
        .iter()
        .map(|length| (length.memory.offset(), length.memory.bytes().len()));
    let expected = [(16_000, 384), (16_384, 16_384), (32_768, 3232)];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    drop(lengths);
    assert_eq!(registrar.give_up(&part), 40_000, "all of the owner's");
}

/// 64 MiB at most, and objects of a MiB at least, without lengths of the test's own.
#[test]
fn lengths_follow_the_groups() {
    let device = Arc::new(HostDevice::new(0));
    let registrar = Registrar::new(device, u64::MAX, 24 << 20);
    let (small, large) = (memory((1 << 20) - 1), memory((100 << 20) + 5));
    for object in [&small, &large] {
        registrar.enqueue(object, registrar.begin());
    }
    let mut lengths = Vec::new();
    let mut before = 0;
    while registrar.register_next() {
        lengths.push(registrar.used_bytes() - before);
        before = registrar.used_bytes();
    }
    assert_eq!(lengths, [48 << 20, 48 << 20, (4 << 20) + 5]);
    assert!(registrar.find(&small, 1).is_none());
}

#[test]
fn memory_that_a_driver_cannot_register_goes_through_the_ring() {
    let faults = Faults {
        registrations: 0,
        ..Faults::default()
    };
    let fixture = Fixture::new(&MODEL, faults);
    let mut executor = executor(&fixture, u64::MAX);
    assert_eq!(executor.registrar().refusal(), None);
    assert_eq!(loads(&fixture, &mut executor, 2), [0, 0]);
    let refusal = executor.registrar().refusal().unwrap();
    assert!(refusal.contains("not supported"), "{refusal}");
    // Nothing waits, and so nothing is referenced.
    assert!(executor.registrar().until_expiry(Duration::MAX).is_none());
    fixture.device.set_faults(Faults::default());
    assert_eq!(loads(&fixture, &mut executor, 2), [0, 0], "it is final");
}

#[test]
fn refusals_for_the_moment_delay_registrations() {
    let faults = Faults {
        busy_registrations: 4,
        ..Faults::default()
    };
    let registrar = registrar(u64::MAX, faults);
    let (one, other) = (memory(10_000), memory(10_000));
    for object in [&one, &other] {
        registrar.enqueue(object, registrar.begin());
    }
    let mut now = Instant::now();
    for pause in [1, 2, 4, 8] {
        assert!(registrar.register_next_at(now));
        assert!(registrar.refusal().unwrap().contains("OUT_OF_MEMORY"));
        now += Duration::from_secs(pause);
        let early = now.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(!registrar.register_next_at(early), "within {pause} s");
    }
    while registrar.register_next_at(now) {}
    assert_eq!(
        (registrar.used_bytes(), registrar.refusal()),
        (20_000, None)
    );
}

/// Pages of a store that this process may not open for writing.
struct ReadOnlyPages(Vec<u8>);

impl HostBytes for ReadOnlyPages {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn stays_read_only(&self) -> bool {
        true
    }
}

#[test]
fn read_only_pages_are_registered_where_the_driver_takes_them() {
    let registrar = registrar(u64::MAX, Faults::default());
    let pages = HostSlice::whole(Arc::new(ReadOnlyPages(vec![0; 10_000])));
    registrar.enqueue(&pages, registrar.begin());
    registrar.register_all();
    assert_eq!(registrar.used_bytes(), 10_000);
}

#[test]
fn waiting_memory_is_given_up_and_counted() {
    let registrar = registrar(50_000, Faults::default());
    let (one, other, third) = (memory(40_000), memory(10_000), memory(10_000));
    for object in [&one, &other, &third] {
        registrar.enqueue(object, registrar.begin());
    }
    registrar.register_next();
    assert_eq!(registrar.give_up(&one), 40_000, "registered in part");
    assert_eq!(registrar.give_up(&third), 0, "beyond the limit");
    registrar.register_all();
    assert_eq!(registrar.used_bytes(), 10_000);
    registrar.enqueue(&one, registrar.begin());
    registrar.clear();
    registrar.register_all();
    assert_eq!((registrar.used_bytes(), registrar.give_up(&one)), (0, 0));
    registrar.enqueue(&one, registrar.begin());
    registrar.expire(Duration::ZERO);
    assert!(registrar.until_expiry(Duration::ZERO).is_none());
}

/// Memory that reports its end, and waits there for an answer.
struct Told {
    bytes: Vec<u8>,
    end: Sender<Sender<()>>,
}

impl HostBytes for Told {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let (answer, answered) = channel();
        if self.end.send(answer).is_ok() {
            let _answered = answered.recv();
        }
    }
}

#[test]
fn a_transfer_finds_its_memory_while_other_memory_is_unregistered() {
    let registrar = registrar(u64::MAX, Faults::default());
    let (end, ends) = channel();
    for _ in 0..3 {
        let (bytes, end) = (vec![0; 10_000], end.clone());
        let memory = HostSlice::whole(Arc::new(Told { bytes, end }));
        registrar.enqueue(&memory, registrar.begin());
    }
    let kept = memory(10_000);
    registrar.enqueue(&kept, registrar.begin());
    registrar.register_all();
    let _in_use = registrar.find(&kept, 4).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| registrar.expire(Duration::ZERO));
        for left in [2, 1, 0] {
            // The driver unregisters one of the three meanwhile.
            let answer = ends.recv().unwrap();
            let (found, finds) = channel();
            let (registrar, kept) = (&registrar, &kept);
            scope.spawn(move || found.send(registrar.find(kept, 4).is_some()));
            assert!(finds.recv_timeout(LONG).unwrap(), "{left} are left");
            drop(answer);
        }
    });
    assert_eq!(registrar.used_bytes(), 10_000);
}

#[test]
fn the_thread_registers_between_transfers() {
    let registrar = Arc::new(registrar(u64::MAX, Faults::default()));
    let transfer = LINK.enter();
    let keep = Duration::from_mins(10);
    let (made, counted) = channel();
    let count = move |registrar: &Registrar<HostDevice>| {
        let _ended = made.send(registrar.take_uses().made);
    };
    let thread = RegistrationThread::start(Arc::clone(&registrar), keep, count).unwrap();
    registrar.enqueue(&memory(40_000), registrar.begin());
    let ended = LINK.wait(Duration::ZERO, Duration::from_millis(150));
    assert!(!ended && registrar.used_bytes() == 0, "a transfer runs");
    drop(transfer);
    eventually(|| registrar.used_bytes() == 40_000);
    drop(thread);
    assert_eq!(counted.iter().sum::<u64>(), 3);
}

#[test]
fn the_thread_gives_up_what_no_copy_has_used_for_long() {
    let registrar = Arc::new(registrar(u64::MAX, Faults::default()));
    let (one, other) = (memory(40_000), memory(10_000));
    for object in [&one, &other] {
        registrar.enqueue(object, registrar.begin());
    }
    registrar.register_all();
    let in_use = registrar.find(&other, 2).unwrap();
    let keep = Duration::from_millis(5);
    let _thread = RegistrationThread::start(Arc::clone(&registrar), keep, |_| {}).unwrap();
    eventually(|| registrar.used_bytes() == 10_000);
    drop(in_use);
    // A registration counts until the driver has ended it.
    eventually(|| registrar.used_bytes() == 0);
    assert_eq!(registrar.until_expiry(keep), None);
}
