//! Layouts of a store in device memory, with the fake driver: a process finds a layout by its key,
//! acquires its objects and reads its tensors at their places.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tetris_gpu_client::{Acquired, Client, Wanted, WantedModel};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, ServedDevice, Server};
use tetris_store_layout::{
    Access, CreateOptions, Dtype, Layout, LayoutKey, LayoutPlace, LayoutTensor, Store, TensorId,
};

use crate::fake_driver::FakeDriver;
use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::{self, DEVICE, LONG, content, eventually};

const FOLDER: &str = "TETRIS_MIRROR_FOLDER";
const OBJECTS: &str = "TETRIS_MIRROR_OBJECTS";
/// Length of the fused weight and of the small tensors' object, in KiB.
const KIB: [usize; 2] = [3000, 8];
/// Begin of the part of the fused weight that has its own name.
const PART: usize = 1000 << 10;

fn key() -> LayoutKey {
    LayoutKey::new("fused", 1).with_condition("device", "fake")
}

/// Records a layout: a fused weight, an alias of its end, and a small tensor.
fn record(store: &Store) {
    let publish = |name: &str, kib| {
        let bytes = content(name, kib);
        store.publish(&bytes, Access::ReadOnly).unwrap().object
    };
    let objects = vec![publish("fused", KIB[0]), publish("small", KIB[1])];
    let tensor = |name: &str, len: usize, object, offset: usize, alias| LayoutTensor {
        name: name.to_owned(),
        dtype: Dtype::U8,
        shape: vec![len as u64],
        strides: vec![1],
        place: Some(LayoutPlace {
            object,
            offset: offset as u64,
        }),
        alias,
    };
    let tensors = vec![
        tensor("qkv", KIB[0] << 10, 0, 0, None),
        tensor("v", (KIB[0] << 10) - PART, 0, PART, Some(0)),
        tensor("scale", 64, 1, 128, None),
    ];
    let layout = Layout {
        sources: [TensorId::of(b"source")].into(),
        objects,
        tensors,
        ..Layout::default()
    };
    layout.check().unwrap();
    let table = store.publish(&layout.encode(), Access::ReadOnly).unwrap();
    let key = key().derived_key().unwrap();
    store.record_derived(&key, table.object).unwrap();
}

fn find(store: &Store) -> Layout {
    let key = key().derived_key().unwrap();
    let table = store.derived(&key, Access::ReadOnly).unwrap().unwrap();
    store.layout(&table.object).unwrap().unwrap()
}

fn acquire<D: DeviceMemory>(folder: &Path, layout: &Layout, device: D) -> Acquired<D> {
    let client = Client::connect(&folder.join("gpu"), D::KIND, LONG).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(layout.objects.clone()));
    let model = client.acquire(Arc::new(device), &wanted, &mut |_| {});
    let model = model.unwrap();
    model.wait_all(LONG).unwrap();
    model
}

/// Reads each tensor from the device, and compares it with the recorded bytes.
fn check<D: DeviceMemory>(layout: &Layout, model: &Acquired<D>) {
    let whole = [content("fused", KIB[0]), content("small", KIB[1])];
    for tensor in &layout.tensors {
        let place = tensor.place.unwrap();
        let begin = place.offset as usize;
        let mut bytes = vec![0; tensor.extent().unwrap() as usize];
        let object = &layout.objects[place.object as usize];
        model
            .read_part(&object.id, place.offset, &mut bytes)
            .unwrap();
        let expected = &whole[place.object as usize][begin..begin + bytes.len()];
        assert!(bytes == expected, "{}", tensor.name);
    }
}

/// Acquires the first objects of the layout, as many as the variable sets.
fn client<D: DeviceMemory>(device: D) {
    let folder = PathBuf::from(variable(FOLDER));
    let mut layout = find(&Store::open(folder.join("store")).unwrap());
    layout.objects.truncate(variable(OBJECTS).parse().unwrap());
    let count = layout.objects.len() as u32;
    layout
        .tensors
        .retain(|tensor| tensor.place.unwrap().object < count);
    let model = acquire(&folder, &layout, device);
    check(&layout, &model);
    tell("as it should be");
    wait();
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_descriptor() {
    client(VmmDevice::open(0).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_handle() {
    client(IpcDevice::open(0).unwrap());
}

/// Two processes attach a layout, and a third one a model that has only its fused weight.
fn share<D: DeviceMemory + 'static>(device: D, test: &str) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = folder.path().join("store");
    let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    record(&store);
    let served = ServedDevice {
        id: DEVICE,
        device: Arc::new(device),
        capacity_bytes: u64::MAX,
    };
    let server = Server::start(vec![served], &mirror::config(Limits::default())).unwrap();
    let socket = folder.path().join("gpu");
    let tenant = TenantId(0);
    server
        .serve(tenant, Arc::clone(&store), None, &socket)
        .unwrap();
    let start = |objects: usize| {
        let environment = [
            (FOLDER, folder.path().display().to_string()),
            (OBJECTS, objects.to_string()),
        ];
        let mut process = Process::start(test, &environment);
        assert_eq!(process.hear(), "as it should be");
        process
    };
    let one_copy = (KIB[0] + KIB[1]) as u64 * 1024;
    let processes = [2, 2, 1].map(start);
    let usage = server.usage(DEVICE).unwrap();
    assert_eq!((usage.held_bytes, usage.held_models), (one_copy, 2));
    drop(processes);
    eventually("nothing is held", || {
        server.usage(DEVICE).unwrap().held_bytes == 0
    });
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_layout() {
    let descriptors = VmmDevice::open(0).unwrap();
    share(descriptors, "fake::layouts::client_by_descriptor");
    let handles = IpcDevice::open(0).unwrap();
    share(handles, "fake::layouts::client_by_handle");
}

#[test]
fn processes_attach_one_copy_of_a_layout() {
    let driver = FakeDriver::new();
    driver.run_one("fake::layouts::server_of_a_layout");
    driver.check();
}
