//! Plans, and their execution byte for byte on the simulated device.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tetris_store_layout::ObjectId;

use super::lengths::Lengths;
use super::*;
use crate::arena::{Arena, ArenaConfig, ChunkId};
use crate::residency::Copy;
use tetris_gpu_device::host::{Faults, HostDevice, HostMapping};
use tetris_gpu_device::{DeviceMemory, HostSlice, Mapped, MemoryError, Protection};

mod registrations;

const GROUP: u64 = 4096;
/// Pieces of four groups; of objects that have a page and a half.
const LENGTHS: Lengths = Lengths {
    piece_bytes: 4 * GROUP,
    least_bytes: 6000,
};

/// Byte that no transfer has written.
const STALE: u8 = 0xee;

/// A model on a device: the positions of its objects, and their bytes.
struct Fixture {
    device: Arc<HostDevice>,
    copies: Vec<Copy>,
    targets: BTreeMap<ChunkId, Arc<HostMapping>>,
    bytes: BTreeMap<ObjectId, Arc<Vec<u8>>>,
}

impl Fixture {
    fn new(lens: &[u64], faults: Faults) -> Self {
        let device = Arc::new(HostDevice::with_faults(256 << 20, faults));
        let config = ArenaConfig::try_new(2 << 20, 4 << 20, 512, 12).unwrap();
        let content = |(number, len): (u8, &u64)| {
            let bytes: Vec<u8> = (0..*len)
                .map(|at| number ^ ((at * 31) >> 3) as u8)
                .collect();
            (ObjectId::of(&[number]), Arc::new(bytes))
        };
        let objects: Vec<_> = (0..).zip(lens).map(content).collect();
        let wanted: Vec<_> = objects
            .iter()
            .map(|(id, bytes)| (*id, bytes.len() as u64))
            .collect();
        let placement = Arena::new(config).place(&wanted, u64::MAX).unwrap();
        let copies = wanted.iter().zip(&placement.places);
        let copies = copies.map(|((object, _), place)| Copy {
            object: *object,
            place: *place,
        });
        let mut targets = BTreeMap::new();
        for new in &placement.created {
            let chunk = device.create(new.bytes).unwrap();
            let range = device.reserve(new.bytes).unwrap();
            let mapping = device.map(range, &chunk, Protection::ReadWrite).unwrap();
            targets.insert(new.id, Arc::new(mapping));
        }
        Self {
            copies: copies.collect(),
            device,
            targets,
            bytes: objects.into_iter().collect(),
        }
    }

    fn source(&self, object: &ObjectId) -> Option<HostSlice> {
        let bytes: Arc<Vec<u8>> = Arc::clone(self.bytes.get(object)?);
        Some(HostSlice::whole(bytes))
    }

    /// Overwrites the copies.
    fn forget(&self) {
        for target in self.targets.values() {
            let mut stream = self.device.stream().unwrap();
            let stale = vec![STALE; target.bytes() as usize];
            let stale = HostSlice::whole(Arc::new(stale));
            self.device.copy_in(&mut stream, target, 0, stale).unwrap();
            self.device.synchronize(&mut stream).unwrap();
        }
    }

    /// Returns true if the object's bytes on the device are correct.
    fn is_there(&self, object: &ObjectId) -> bool {
        let copy = self
            .copies
            .iter()
            .find(|copy| copy.object == *object)
            .unwrap();
        let mut content = vec![0; copy.place.len as usize];
        let target = &self.targets[&copy.place.chunk];
        self.device
            .read_back(target, copy.place.offset, &mut content)
            .unwrap();
        content == **self.bytes[object]
    }

    fn run(
        &self,
        executor: &mut Executor<HostDevice>,
    ) -> (Result<Report, CopyError>, Vec<ObjectId>) {
        let plan = TransferPlan::new(&self.copies, GROUP);
        let ready = RefCell::new(Vec::new());
        let result = executor.run(
            &plan,
            &|object| self.source(object),
            &self.targets,
            &mut |object| {
                assert!(self.is_there(&object), "told too early");
                ready.borrow_mut().push(object);
            },
        );
        (result, ready.into_inner())
    }
}

fn executor(fixture: &Fixture, pin_limit: u64) -> Executor<HostDevice> {
    let mut config = ExecutorConfig::try_new(3, 4, GROUP, pin_limit).unwrap();
    config.gatherers = 2;
    let device = Arc::clone(&fixture.device);
    let registrar = Registrar::with_lengths(device, pin_limit, LENGTHS);
    Executor::with(Arc::new(registrar), config)
}

const LENS: [u64; 9] = [100, 5000, 1, 20_000, 4096, 4097, 3, 512, 70_000];

fn total() -> u64 {
    LENS.iter().sum()
}

#[test]
fn every_byte_arrives_through_the_ring_and_from_registered_memory() {
    for (pin_limit, direct_bytes) in [(u64::MAX, 90_000), (0, 0), (30_000, 20_000)] {
        let fixture = Fixture::new(&LENS, Faults::default());
        let mut executor = executor(&fixture, pin_limit);
        for (time, direct) in [0, direct_bytes, direct_bytes].into_iter().enumerate() {
            fixture.forget();
            let (report, ready) = fixture.run(&mut executor);
            let report = report.unwrap();
            assert_eq!(report.direct_bytes, direct, "{pin_limit} {time}");
            assert_eq!(report.staged_bytes, total() - direct);
            assert_eq!(ready.len(), LENS.len());
            assert!(fixture.bytes.keys().all(|object| fixture.is_there(object)));
            executor.registrar().register_all();
        }
    }
}

/// A group of the plan can have pieces of both kinds.
#[test]
fn short_objects_beside_registered_ones_are_staged_alone() {
    let lens = [10_000, 100, 200, 10_000, 300];
    let fixture = Fixture::new(&lens, Faults::default());
    let mut executor = executor(&fixture, u64::MAX);
    fixture.run(&mut executor).0.unwrap();
    executor.registrar().register_all();
    fixture.forget();
    let report = fixture.run(&mut executor).0.unwrap();
    assert_eq!((report.direct_bytes, report.staged_bytes), (20_000, 600));
    assert!(fixture.bytes.keys().all(|object| fixture.is_there(object)));
}

/// Buffers are used again, for other objects and tenants.
#[test]
fn gaps_between_staged_objects_are_zero() {
    let fixture = Fixture::new(&[100; 250], Faults::default());
    fixture.forget();
    fixture.run(&mut executor(&fixture, 0)).0.unwrap();
    let copy = |number: usize| fixture.copies[number].place;
    let mut gap = [1; 412];
    for number in 0..249 {
        let (one, next) = (copy(number), copy(number + 1));
        if one.chunk == next.chunk && one.offset / GROUP == next.offset / GROUP {
            let target = &fixture.targets[&one.chunk];
            let at = one.offset + one.len;
            fixture.device.read_back(target, at, &mut gap).unwrap();
            assert!(gap.iter().all(|byte| [0, STALE].contains(byte)), "{number}");
        }
    }
}

/// Without threads every buffer is filled at once, and waits for its stream to let it go.
#[test]
fn the_first_transfer_allocates_nothing_that_was_prepared() {
    for gatherers in [0, 2] {
        let fixture = Fixture::new(&LENS, Faults::default());
        let mut config = ExecutorConfig::try_new(3, 4, GROUP, 0).unwrap();
        config.gatherers = gatherers;
        let mut executor = Executor::new(Arc::clone(&fixture.device), config);
        executor.prepare().unwrap();
        fixture.device.set_faults(Faults {
            pinned: 0,
            ..Faults::default()
        });
        assert_eq!(fixture.run(&mut executor).0.unwrap().staged_bytes, total());
    }
}

#[test]
fn a_transfer_makes_the_buffers_that_could_not_be_prepared() {
    let faults = Faults {
        pinned: 2,
        ..Faults::default()
    };
    let fixture = Fixture::new(&LENS, faults);
    let mut executor = executor(&fixture, u64::MAX);
    assert!(executor.prepare().is_err());
    assert!(fixture.run(&mut executor).0.is_err());
    fixture.device.set_faults(Faults::default());
    assert!(fixture.run(&mut executor).0.is_ok());
}

#[test]
fn first_objects_are_ready_before_the_last_has_been_copied() {
    let fixture = Fixture::new(&[4096; 40], Faults::default());
    let plan = TransferPlan::new(&fixture.copies, GROUP);
    let last = fixture.copies.last().unwrap().object;
    let mut early = 0;
    let mut executor = executor(&fixture, u64::MAX);
    executor
        .run(
            &plan,
            &|object| fixture.source(object),
            &fixture.targets,
            &mut |_| {
                early += usize::from(!fixture.is_there(&last));
            },
        )
        .unwrap();
    assert!(early >= 20, "{early}");
}

#[test]
fn a_failed_copy_is_reported_and_the_executor_goes_on_afterwards() {
    let fixture = Fixture::new(
        &LENS,
        Faults {
            copies: 5,
            ..Faults::default()
        },
    );
    let mut executor = executor(&fixture, 0);
    let (result, ready) = fixture.run(&mut executor);
    assert!(
        matches!(result, Err(CopyError::Memory(MemoryError::Copy { .. }))),
        "{result:?}"
    );
    assert!(ready.len() < LENS.len());
    fixture.device.set_faults(Faults::default());
    assert!(fixture.run(&mut executor).0.is_ok(), "on new streams");
    assert!(fixture.run(&mut executor).0.is_ok(), "on the same");
    assert!(fixture.bytes.keys().all(|object| fixture.is_there(object)));
}

#[test]
fn missing_sources_and_chunks_are_named() {
    let fixture = Fixture::new(&LENS, Faults::default());
    let plan = TransferPlan::new(&fixture.copies, GROUP);
    let mut executor = executor(&fixture, 0);
    let result = executor.run(&plan, &|_| None, &fixture.targets, &mut |_| {});
    assert!(
        matches!(result, Err(CopyError::NoSource { object }) if object == fixture.copies[0].object)
    );
    let source = |object: &ObjectId| fixture.source(object);
    let result = executor.run(&plan, &source, &BTreeMap::new(), &mut |_| {});
    assert!(matches!(result, Err(CopyError::NoTarget { .. })));
    let short = |_: &ObjectId| Some(HostSlice::whole(Arc::new(vec![0u8; 2])));
    let result = executor.run(&plan, &short, &fixture.targets, &mut |_| {});
    assert!(matches!(
        result,
        Err(CopyError::Memory(MemoryError::Bounds { .. }))
    ));
}

#[test]
fn samples_are_taken_with_the_clock_that_is_passed() {
    let fixture = Fixture::new(&[1 << 20], Faults::default());
    let target = fixture.targets.values().next().unwrap();
    let from = fixture.source(&fixture.copies[0].object).unwrap();
    let mut ticks = 0;
    let mut now = || {
        ticks += 1;
        std::time::Duration::from_millis(ticks)
    };
    let samples = measure(&*fixture.device, target, &from, &[4096, 65_536], &mut now).unwrap();
    let expected = |group_bytes| Sample {
        group_bytes,
        bytes_per_second: (1 << 20) * 1000,
    };
    assert_eq!(samples, [expected(4096), expected(65_536)]);
    assert!(fixture.is_there(&fixture.copies[0].object));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every byte is in exactly one group, and groups keep to their size and order. Each object
    /// completes exactly once, with the last of its groups, in any order of completion.
    #[test]
    fn plans_cover_everything_once(
        lens in prop::collection::vec(1u64..20_000, 1..30),
        group in 1u64..9000,
        order in any::<prop::sample::Index>(),
    ) {
        let wanted: Vec<_> = (0u8..).zip(&lens).map(|(number, len)| (ObjectId::of(&[number]), *len)).collect();
        let config = ArenaConfig::try_new(4096, 65_536, 512, 12).unwrap();
        let placement = Arena::new(config).place(&wanted, u64::MAX).unwrap();
        let copies = wanted.iter().zip(&placement.places);
        let copies: Vec<_> = copies.map(|((object, _), place)| Copy { object: *object, place: *place }).collect();
        let plan = TransferPlan::new(&copies, group);
        prop_assert_eq!(plan.bytes(), lens.iter().sum::<u64>());
        let mut pieces = plan.groups().iter().flat_map(|group| group.pieces.iter().map(|piece| (group.chunk, piece)));
        for copy in &copies {
            let mut at = 0;
            while at < copy.place.len {
                let (chunk, piece) = pieces.next().unwrap();
                prop_assert_eq!((chunk, piece.object, piece.from), (copy.place.chunk, copy.object, at));
                prop_assert_eq!(piece.to, copy.place.offset + at);
                prop_assert!(piece.len > 0);
                at += piece.len;
            }
        }
        prop_assert!(pieces.next().is_none());
        prop_assert!(plan.groups().iter().all(|entry| entry.span() <= group && entry.bytes() > 0));
        let mut progress = Progress::new(&plan);
        let count = plan.groups().len();
        let first = order.index(count);
        let mut complete = Vec::new();
        for number in (first..count).chain(0..first) {
            prop_assert!(!progress.is_complete());
            let group = &plan.groups()[number];
            complete.extend(progress.ended(number, group));
            prop_assert!(progress.ended(number, group).is_empty(), "a group ends once");
        }
        prop_assert!(progress.is_complete());
        complete.sort();
        let mut all: Vec<_> = wanted.iter().map(|(object, _)| *object).collect();
        all.sort();
        prop_assert_eq!(complete, all);
    }
}
