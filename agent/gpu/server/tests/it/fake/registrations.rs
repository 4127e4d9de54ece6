//! The server's registrations, as the driver sees them: their lengths, their flags, and their
//! moment.

use tetris_gpu_device::DeviceMemory;
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::{Limits, ServerConfig};
use tetris_store_layout::Access;

use crate::fake::served::{Served, acquire};
use crate::fake_driver::FakeDriver;
use crate::mirror::{self, LONG, MIB, eventually};

/// An object of three pieces, and others that are too short for one.
const LARGE_KIB: usize = 130 << 10;
const SMALL_KIB: usize = 1000;
const GROUP: u64 = 8 * MIB;

fn config() -> ServerConfig {
    ServerConfig {
        executor: ExecutorConfig::try_new(2, 4, GROUP, 512 * MIB).unwrap(),
        ..mirror::config(Limits::default())
    }
}

/// Loads the model twice, the second time from registered pages.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_large_object() {
    let device = VmmDevice::open(0).unwrap();
    assert!(device.capabilities().registers_read_only);
    let served = Served::with(device.clone(), &config());
    let mut model = mirror::publish(served.store(), &["large"], LARGE_KIB);
    model.extend(mirror::publish(served.store(), &["m", "n"], SMALL_KIB));
    let others = mirror::publish(served.store(), &["other"], LARGE_KIB);
    let large = (LARGE_KIB as u64) << 10;
    let pinned = || served.server.report().devices[0].pinned_bytes;
    for (objects, expected) in [(&model, large), (&others, 2 * large), (&model, 2 * large)] {
        let model = acquire(&served.socket, objects, device.clone()).unwrap();
        model.wait_all(LONG).unwrap();
        for object in objects {
            let read = model.read(&object.id, LONG).unwrap();
            assert!(
                read[..]
                    == served
                        .store()
                        .map(object, Access::ReadOnly)
                        .unwrap()
                        .unwrap()[..]
            );
        }
        model.release().unwrap();
        eventually("its pages are registered", || pinned() == expected);
    }
    let small = 2 * ((SMALL_KIB as u64) << 10);
    eventually("it is counted", || {
        let counters = served.counters();
        (counters.direct_bytes, counters.staged_bytes) == (large, 2 * large + 2 * small)
    });
}

#[test]
fn pages_are_registered_in_pieces_for_one_device_while_no_copy_runs() {
    for driver in FakeDriver::each() {
        let driver = driver
            .with("READ_ONLY_REGISTER", 1)
            .with("TELL_REGISTRATIONS", 1)
            .with("REGISTER_MS_PER_GB", 100)
            .with_room(150);
        driver.run_one("fake::registrations::server_of_a_large_object");
        let told = driver.remembers("registrations");
        let told: Vec<_> = told
            .lines()
            .filter_map(|line| Some(line.split_once(": ")?.1))
            .collect();
        let piece = |bytes: u64| format!("{bytes} bytes, flags 8, idle");
        let object = [64 * MIB, 64 * MIB, 2 * MIB].map(piece);
        assert_eq!(told, [&object[..], &object[..]].concat());
        driver.check();
    }
}
