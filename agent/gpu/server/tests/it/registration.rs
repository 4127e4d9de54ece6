//! Registration of the store's pages by a server.

use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, ServedDevice, Server, ServerConfig};
use tetris_store_layout::{CreateOptions, ObjectRef, Reclaimed, Store};

use crate::mirror::{DEVICE, LONG, MIB, Mirror, check, config, eventually, publish};

const NAMES: [&str; 3] = ["a", "b", "c"];
const KIB: usize = 1100;

fn total(objects: &[ObjectRef]) -> u64 {
    objects.iter().map(|object| object.len).sum()
}

#[test]
fn a_load_is_staged_and_its_pages_are_registered_afterwards() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&NAMES, KIB);
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &NAMES, KIB);
    eventually("the load is counted", || {
        mirror.server.counters().staged_bytes == total(&objects)
    });
    eventually("its pages are registered", || {
        mirror.server.report().devices[0].pinned_bytes == total(&objects)
    });
    assert_eq!(mirror.server.counters().direct_bytes, 0);
}

/// The first load finds the pinned buffers made.
#[test]
fn a_first_load_allocates_no_pinned_memory() {
    let mirror = Mirror::new(64);
    mirror.faults(Faults {
        pinned: 0,
        registrations: 0,
        ..Faults::default()
    });
    let objects = mirror.model(&NAMES, KIB);
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &NAMES, KIB);
}

#[test]
fn the_report_says_why_pages_are_not_registered() {
    let mirror = Mirror::new(64);
    let refusal = || mirror.server.report().devices[0].unregistered.clone();
    assert_eq!(refusal(), None);
    mirror.faults(Faults {
        registrations: 0,
        ..Faults::default()
    });
    let objects = mirror.model(&NAMES, KIB);
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &NAMES, KIB);
    eventually("the report says why", || refusal().is_some());
    let refusal = refusal().unwrap();
    assert!(refusal.contains("not supported"), "{refusal}");
    model.release().unwrap();
    eventually("nothing waits for a registration", || {
        let reclaimed = mirror.store.reclaim(&objects[0]).unwrap();
        reclaimed != Reclaimed::Referenced
    });
}

#[test]
fn nothing_is_registered_where_nothing_is_to_be_kept() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = directory.path().join("store");
    let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    let served = ServedDevice {
        id: DEVICE,
        device: Arc::new(HostDevice::new(64 * MIB)),
        capacity_bytes: u64::MAX,
    };
    let config = ServerConfig {
        keep_pinned: Duration::ZERO,
        ..config(Limits::default())
    };
    let server = Server::start(vec![served], &config).unwrap();
    let socket = directory.path().join("gpu");
    let tenant = TenantId(0);
    server
        .serve(tenant, Arc::clone(&store), None, &socket)
        .unwrap();
    let objects = publish(&store, &NAMES, KIB);
    let client = Client::connect(&socket, MemoryKind::Host, LONG).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
    let device = Arc::new(HostDevice::new(0));
    let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
    check(&model, &objects, &NAMES, KIB);
    eventually("no object is referenced", || {
        let reclaimed = store.reclaim(&objects[2]).unwrap();
        reclaimed != Reclaimed::Referenced
    });
    assert_eq!(server.unpin(tenant), 0);
    assert_eq!(server.counters().registrations, 0);
}
