//! Chunks that exist ahead of need: after the start the driver creates no memory for a load.

use std::time::Duration;

use tetris_gpu_device::DeviceMemory;
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::{Limits, ServerConfig};

use super::served::{Served, check};
use crate::fake_driver::FakeDriver;
use crate::mirror::{self, LONG, MIB, content, eventually};

/// Room for two of the models, which have 4 chunks of 4 MiB each.
const ROOM_MIB: i32 = 32;
/// Number of chunks created at the start.
const CHUNKS: u64 = ROOM_MIB as u64 / 4;

fn config() -> ServerConfig {
    ServerConfig {
        spare_bytes: CHUNKS * 4 * MIB,
        ..mirror::config(Limits::default())
    }
}

/// Models take turns on a device that has room for two of them.
fn take_turns<D: DeviceMemory + Clone + 'static>(device: D) {
    let served = Served::with(device, &config());
    assert_eq!(served.report().devices[0].spare_bytes, CHUNKS * 4 * MIB);
    let names = ["e", "f", "g", "h"];
    let others = [
        served.publish(&names),
        served.publish(&["i", "j", "k", "l"]),
    ];
    for _ in 0..3 {
        let model = served.load_within(&served.model, LONG).unwrap();
        check(&model);
        model.release().unwrap();
        for other in &others {
            let model = served.load_within(other, LONG).unwrap();
            model.release().unwrap();
        }
    }
    let last = served.load_within(&others[0], LONG).unwrap();
    for (object, name) in others[0].iter().zip(names) {
        assert!(last.read(&object.id, LONG).unwrap() == content(name, super::served::KIB));
    }
    let counters = served.counters();
    assert_eq!(
        (counters.chunks_created, counters.awaited_chunks),
        (CHUNKS, 0)
    );
    assert!(
        counters.evicted >= 6 && counters.spares_used > CHUNKS,
        "{counters:?}"
    );
    assert_eq!((counters.failed_transfers, counters.yielded), (0, 0));
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn turns_by_descriptors() {
    take_turns(VmmDevice::open(0).unwrap());
}

#[test]
fn nothing_is_created_while_a_client_waits() {
    for driver in FakeDriver::each() {
        // The first call after those of the start fails, and all further ones.
        let driver = driver.with_room(ROOM_MIB);
        let driver = driver.failing(&format!("cuMemCreate:2:{}:1000", CHUNKS + 1));
        driver.run_one("fake::spares::turns_by_descriptors");
        driver.check();
    }
}

/// Spares go before a load is refused or a model evicted, and the driver frees them late.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn memory_for_something_else() {
    let config = ServerConfig {
        memory_patience: Duration::from_secs(50),
        ..config()
    };
    let served = Served::with(VmmDevice::open(0).unwrap(), &config);
    let idle = served.load_within(&served.model, LONG).unwrap();
    idle.release().unwrap();
    // No spare is as long as this object.
    let long = mirror::publish(served.store(), &["long"], 9 << 10);
    let model = served.load_within(&long, LONG).unwrap();
    assert!(model.read(&long[0].id, LONG).unwrap() == content("long", 9 << 10));
    let counters = served.counters();
    assert_eq!(counters.awaited_chunks, 1);
    assert_eq!((counters.evicted, counters.yielded), (0, 0));
    let usage = served.usage();
    let spares = || served.report().devices[0].spare_bytes;
    eventually("spares and chunks are within the capacity", || {
        usage.created_bytes + spares() <= served.usage().capacity_bytes
    });
}

#[test]
fn spares_give_way() {
    for late in [0, 100] {
        let driver = FakeDriver::new().with_room(ROOM_MIB);
        let driver = driver.with("RELEASE_MS", late);
        driver.run_one("fake::spares::memory_for_something_else");
        driver.check();
    }
}
