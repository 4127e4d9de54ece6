//! Bytes on a device that are not the object's own: those of an earlier owner, and changed ones.

use super::chunk::Physical;
use super::*;
use tetris_gpu_device::HostSlice;

/// Fast enough that a piece is always due.
const AT_ONCE: u64 = u64::MAX;

impl Fixture {
    /// All bytes of all chunks.
    fn device_bytes(&self) -> Vec<u8> {
        let state = self.core.state();
        let chunks = state.devices[&DEVICE].chunks.values();
        let read = |physical: &Physical<HostDevice>| {
            let mut bytes = vec![0; physical.bytes as usize];
            let read = self.device.read_back(&physical.mapping, 0, &mut bytes);
            read.unwrap();
            bytes
        };
        chunks.flat_map(read).collect()
    }

    /// Writes to the device, as a process does that maps a chunk for writing.
    fn overwrite(&self, object: ObjectRef, at: u64) {
        let state = self.core.state();
        let place = state.manager.ready_place(DEVICE, TENANT, &object.id);
        let place = place.unwrap();
        let physical = &state.devices[&DEVICE].chunks[&(TENANT, place.chunk)];
        let mut stream = self.device.stream().unwrap();
        let wrong = HostSlice::whole(Arc::new(vec![0xee; 1]));
        self.device
            .copy_in(&mut stream, &physical.mapping, place.offset + at, wrong)
            .unwrap();
        self.device.synchronize(&mut stream).unwrap();
    }

    /// Checks many pieces, far more than there are.
    fn check(mut self) -> Self {
        let (mut worker, _sender, _jobs) = self.worker();
        worker.checker = Checker::new(AT_ONCE);
        for _ in 0..200 {
            worker.check_piece();
        }
        self
    }
}

/// A client gets its chunks before the copies are done, and with them the space between objects.
#[test]
fn a_client_sees_no_bytes_of_an_earlier_owner() {
    let fixture = Fixture::new();
    fixture.device.set_faults(Faults {
        stale: Some(0xa5),
        ..Faults::default()
    });
    let client = fixture.admit(&[fixture.object(1, 700), fixture.object(2, 900)]);
    let fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    let bytes = fixture.device_bytes();
    let count = |byte: u8| bytes.split(|found| *found == byte).count() - 1;
    assert_eq!((count(1), count(2)), (700 << 10, 900 << 10));
    assert_eq!(count(0), bytes.len() - (1600 << 10), "and nothing else");
    let counters = fixture.core.metrics.counters();
    assert_eq!(counters.cleared_bytes, bytes.len() as u64);
}

/// Not even when its copies fail.
#[test]
fn a_chunk_whose_copies_fail_has_been_cleared() {
    let fixture = Fixture::new();
    fixture.device.set_faults(Faults {
        stale: Some(0xa5),
        copies: 1,
        ..Faults::default()
    });
    let first = fixture.admit(&[fixture.object(1, 60)]);
    let second = fixture.admit(&[fixture.object(2, 3000)]);
    let fixture = fixture.work();
    assert!(first.mailbox.take().complete);
    assert!(second.mailbox.take().failed.is_some());
    let bytes = fixture.device_bytes();
    assert!(bytes.len() >= 60 << 10);
    assert!(!bytes.contains(&0xa5));
}

#[test]
fn a_changed_byte_is_found_and_the_object_is_dropped_and_copied_anew() {
    let fixture = Fixture::new();
    // The second one has two segments.
    let (small, large) = (fixture.object(1, 100), fixture.object(2, 4500));
    let both = fixture.admit(&[small, large]);
    let other = fixture.admit(&[small]);
    let fixture = fixture.work();
    assert!(both.mailbox.take().complete && other.mailbox.take().complete);
    let fixture = fixture.check();
    let counters = fixture.core.metrics.counters();
    assert!(counters.checked_objects >= 2, "{counters:?}");
    assert_eq!(counters.damaged_objects, 0);
    fixture.overwrite(large, (4 << 20) + 17);
    let fixture = fixture.check();
    assert_eq!(fixture.core.metrics.counters().damaged_objects, 1);
    let (reason, why) = both.mailbox.take().failed.unwrap();
    assert_eq!(reason, Reason::DAMAGED);
    assert!(why.contains(&large.id.to_string()), "{why}");
    assert!(other.mailbox.take().failed.is_none(), "its object is right");
    let again = fixture.admit(&[small, large]);
    let fixture = fixture.work().check();
    assert!(again.mailbox.take().complete);
    let counters = fixture.core.metrics.counters();
    assert_eq!((counters.copied_objects, counters.damaged_objects), (3, 1));
}

#[test]
fn nothing_is_read_back_without_a_rate_or_before_its_time() {
    let mut fixture = Fixture::new();
    let client = fixture.admit(&[fixture.object(1, 1000)]);
    fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    let (mut worker, _sender, _jobs) = fixture.worker();
    for (rate, most) in [(0, 0), (1 << 10, 1000 << 10)] {
        worker.checker = Checker::new(rate);
        for _ in 0..100 {
            worker.check_piece();
        }
        assert_eq!(fixture.core.metrics.counters().checked_bytes, most);
    }
}
