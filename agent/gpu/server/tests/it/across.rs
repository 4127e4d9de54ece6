//! Copies from one device of a server to another, on simulated devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conformance::check_pair;
use tempfile::TempDir;
use tetris_gpu_client::{Acquired, Client, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_server::residency::{DeviceId, TenantId};
use tetris_gpu_server::{Counters, DeviceLinks, Limits, ServedDevice, Server};
use tetris_store_layout::{CreateOptions, ObjectRef, Store};

use crate::mirror::{LONG, MIB, check, config, eventually, publish};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KIB: usize = 1024;
const BYTES: u64 = 4 * MIB;

#[test]
fn simulated_devices_conform() {
    let device = |number, group| HostDevice::numbered(number, group, 64 * MIB);
    assert!(check_pair(&device(0, 1), &device(1, 1)).unwrap());
    assert!(!check_pair(&device(0, 1), &device(1, 2)).unwrap());
    assert!(!check_pair(&device(0, 0), &device(1, 0)).unwrap());
}

/// A server of two devices that a link joins.
struct Pair {
    _directory: TempDir,
    devices: [HostDevice; 2],
    server: Server<HostDevice>,
    socket: std::path::PathBuf,
    model: Vec<ObjectRef>,
    store: Arc<Store>,
}

impl Pair {
    /// Rates of the links from the host and from the other device.
    fn new(from_host: Option<u64>, from_device: Option<u64>) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = directory.path().join("store");
        let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
        let devices = [0, 1].map(|number| HostDevice::numbered(number, 1, 16 * MIB));
        let served = (0u32..).zip(&devices).map(|(number, device)| ServedDevice {
            id: DeviceId(number),
            device: Arc::new(device.clone()),
            capacity_bytes: u64::MAX,
        });
        let server = Server::start(served.collect(), &config(Limits::default())).unwrap();
        for number in [0, 1] {
            let links = DeviceLinks {
                from_host,
                switch: None,
                from_devices: BTreeMap::from([(DeviceId(1 - number), from_device)]),
            };
            server.set_links(DeviceId(number), links);
        }
        let socket = directory.path().join("gpu");
        let tenant = TenantId(0);
        server
            .serve(tenant, Arc::clone(&store), None, &socket)
            .unwrap();
        let model = publish(&store, &NAMES, KIB);
        Self {
            _directory: directory,
            devices,
            server,
            socket,
            model,
            store,
        }
    }

    fn load_on(&self, number: u32) -> Acquired<HostDevice> {
        let client = Client::connect(&self.socket, MemoryKind::Host, LONG).unwrap();
        let wanted = Wanted::new(WantedModel::Objects(self.model.clone()));
        let device = Arc::new(HostDevice::numbered(number, 0, 0));
        let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
        check(&model, &self.model, &NAMES, KIB);
        model
    }

    /// Counters once the loads so far are counted.
    fn counters(&self, bytes: u64) -> Counters {
        let copied = |one: Counters| one.across_bytes + one.direct_bytes + one.staged_bytes;
        eventually("the loads are counted", || {
            copied(self.server.counters()) == bytes
        });
        self.server.counters()
    }
}

#[test]
fn a_model_comes_from_the_other_device_if_its_link_is_faster() {
    let pair = Pair::new(Some(25), Some(100));
    let first = pair.load_on(0);
    assert_eq!(pair.counters(BYTES).across_bytes, 0);
    let second = pair.load_on(1);
    let counters = pair.counters(2 * BYTES);
    assert_eq!((counters.across_bytes, counters.failed_across), (BYTES, 0));
    // The first one's memory is not needed for the second.
    drop(first);
    eventually("the first is not held", || {
        pair.server.usage(DeviceId(0)).unwrap().held_models == 0
    });
    check(&second, &pair.model, &NAMES, KIB);
}

#[test]
fn a_slower_link_or_one_of_unknown_rate_is_not_used() {
    for (from_host, from_device) in [(Some(25), Some(20)), (Some(25), None), (None, None)] {
        let pair = Pair::new(from_host, from_device);
        let _first = pair.load_on(0);
        let _second = pair.load_on(1);
        assert_eq!(pair.counters(2 * BYTES).across_bytes, 0);
    }
}

#[test]
fn only_what_the_other_device_has_comes_from_there() {
    let pair = Pair::new(Some(25), Some(100));
    let part = Wanted::new(WantedModel::Objects(pair.model[..2].to_vec()));
    let client = Client::connect(&pair.socket, MemoryKind::Host, LONG).unwrap();
    let device = Arc::new(HostDevice::numbered(0, 0, 0));
    let half = client.acquire(device, &part, &mut |_| {}).unwrap();
    half.wait_all(LONG).unwrap();
    let _whole = pair.load_on(1);
    let counters = pair.counters(BYTES / 2 + BYTES);
    assert_eq!(counters.across_bytes, BYTES / 2);
}

#[test]
fn what_does_not_arrive_comes_from_the_host() {
    for across in 0..4 {
        let pair = Pair::new(Some(25), Some(100));
        let first = pair.load_on(0);
        pair.devices[1].set_faults(Faults {
            across,
            ..Faults::default()
        });
        let second = pair.load_on(1);
        let counters = pair.counters(2 * BYTES);
        assert_eq!(counters.across_bytes, across * MIB);
        assert_eq!((counters.failed_across, counters.failed_transfers), (1, 0));
        // Nothing stays pinned: another model takes all of the first device.
        drop((first, second));
        let names: Vec<_> = (0..16).map(|at| format!("other {at}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let other = publish(&pair.store, &names, KIB);
        let wanted = Wanted {
            wait: LONG,
            ..Wanted::new(WantedModel::Objects(other))
        };
        let client = Client::connect(&pair.socket, MemoryKind::Host, LONG).unwrap();
        let device = Arc::new(HostDevice::numbered(0, 0, 0));
        let other = client.acquire(device, &wanted, &mut |_| {}).unwrap();
        other.wait_all(LONG).unwrap();
    }
}

#[test]
fn a_lost_device_gives_nothing() {
    let pair = Pair::new(Some(25), Some(100));
    let _first = pair.load_on(0);
    pair.devices[0].lose();
    pair.server.check();
    eventually("the first device is lost", || {
        pair.server.usage(DeviceId(0)).is_none()
    });
    let _second = pair.load_on(1);
    assert_eq!(pair.counters(2 * BYTES).across_bytes, 0);
}
