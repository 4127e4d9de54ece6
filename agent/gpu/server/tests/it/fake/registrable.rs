//! Devices that refuse to register read-only pages: the server makes the pages writable only while
//! the driver registers them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::{DeviceMemory, HostSlice};
use tetris_gpu_server::copy::StorePages;
use tetris_gpu_server::{Limits, ServerConfig};
use tetris_store_layout::{Access, CreateOptions, Store, Verified, VerifyDepth};

use crate::fake::served::{Served, total};
use crate::fake_driver::FakeDriver;
use crate::mirror;

/// Returns true if this process may open a store's objects, whose mode is 0444, for writing.
fn can_write() -> bool {
    let effective = capabilities(None).unwrap().effective;
    let can = effective.contains(CapabilitySet::DAC_OVERRIDE);
    if !can {
        println!("skipped: needs CAP_DAC_OVERRIDE, to open objects for writing");
    }
    can
}

fn without_capability() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE);
    set_capabilities(None, sets).unwrap();
}

/// Permissions of the mapped pages of this folder's files, and for each kind of mapping whether
/// they could be made writable (`mw`).
fn pages(folder: &Path) -> BTreeSet<String> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut found, mut mode) = (BTreeSet::new(), None);
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let can = flags.split_whitespace().any(|flag| flag == "mw");
            let kind = if can { "could be writable" } else { "never" };
            found.extend(mode.take().map(|mode| format!("{mode} {kind}")));
        } else if line.contains(folder.to_str().unwrap()) {
            mode = line.split(' ').nth(1);
        }
    }
    found
}

/// Loads the model twice and reports how its bytes were copied, and the state of the pages, which
/// stay registered.
fn tell<D: DeviceMemory + Clone + 'static>(device: D, writable_registration: bool) {
    let config = ServerConfig {
        writable_registration,
        ..mirror::config(Limits::default())
    };
    let served = Served::with(device, &config);
    let counters = served.load_again();
    let (direct, staged) = (counters.direct_bytes, counters.staged_bytes);
    let pages = pages(served.store().root());
    println!("\ndirect {direct} staged {staged} pages {pages:?}");
    for object in &served.model {
        let verified = served.store().verify(object, VerifyDepth::Full).unwrap();
        assert_eq!(verified, Verified::Sound);
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_with_descriptors() {
    tell(VmmDevice::open(0).unwrap(), true);
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_that_may_not() {
    tell(VmmDevice::open(0).unwrap(), false);
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_that_cannot() {
    without_capability();
    tell(VmmDevice::open(0).unwrap(), true);
}

/// Each driver has a device with room for one model.
fn expect(read_only_register: i32, test: &str, expected: &str) {
    for driver in FakeDriver::each() {
        let driver = driver
            .with("READ_ONLY_REGISTER", read_only_register)
            .with_room(24);
        let said = driver.run_one(&format!("fake::registrable::{test}"));
        assert!(said.contains(expected), "expected {expected}: {said}");
        driver.check();
    }
}

#[test]
fn pages_are_registered_where_the_driver_takes_no_read_only_ones() {
    if !can_write() {
        return;
    }
    let all = total();
    let expected = format!(
        "direct {all} staged {} pages {{\"r--s could be writable\"}}",
        2 * all
    );
    expect(0, "server_with_descriptors", &expected);
}

#[test]
fn who_cannot_open_objects_for_writing_stages() {
    let expected = format!("direct 0 staged {}", 3 * total());
    expect(0, "server_that_cannot", &expected);
}

#[test]
fn who_may_not_open_objects_for_writing_stages() {
    let expected = format!("direct 0 staged {}", 3 * total());
    expect(0, "server_that_may_not", &expected);
}

#[test]
fn objects_are_not_opened_for_writing_where_the_driver_takes_read_only_pages() {
    let expected = format!(
        "direct {} staged {} pages {{\"r--s never\"}}",
        total(),
        2 * total()
    );
    expect(1, "server_with_descriptors", &expected);
}

/// The driver refuses the first registration and accepts the second.
fn register_twice<D: DeviceMemory>(device: &D) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(folder.path(), &CreateOptions::default()).unwrap();
    let object = store.publish(&[7; 9000], Access::ReadOnly).unwrap().object;
    let access = StorePages::access(&device.capabilities());
    let mapping = store.map(&object, access).unwrap().unwrap();
    let read_only = BTreeSet::from(["r--s could be writable".to_owned()]);
    let memory = HostSlice::whole(Arc::new(StorePages::new(Arc::new(mapping))));
    let refused = device.register(memory.clone()).unwrap_err();
    assert!(refused.to_string().contains("(2)"), "{refused}");
    assert_eq!(pages(folder.path()), read_only);
    let registration = device.register(memory.clone()).unwrap();
    assert_eq!(pages(folder.path()), read_only);
    drop(registration);
    assert_eq!(pages(folder.path()), read_only);
    assert_eq!(memory.bytes(), [7; 9000]);
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn registrations_by_descriptors() {
    register_twice(&VmmDevice::open(0).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn registrations_by_handles() {
    register_twice(&IpcDevice::open(0).unwrap());
}

#[test]
fn a_refused_registration_leaves_pages_read_only() {
    if !can_write() {
        return;
    }
    for test in ["registrations_by_descriptors", "registrations_by_handles"] {
        for driver in FakeDriver::each() {
            let driver = driver.failing("cuMemHostRegister_v2:2:1:1");
            driver.run_one(&format!("fake::registrable::{test}"));
            driver.check();
        }
    }
}
