//! A server on the simulated device in this process, and models over several connections.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use safetensors::tensor::TensorView;
use tempfile::TempDir;
use tetris_gpu_client::{ClientError, WantedModel};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_protocol::Reason;
use tetris_gpu_server::residency::{DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig};
use tetris_store_layout::{CreateOptions, Dtype, Store};

use crate::detached::Region;
use crate::device::{
    DeviceError, DeviceModel, DeviceOptions, Numbering, Registry, Target, devices, split, status,
};
use crate::known_model::{KnownModel, StoredTensor};
use crate::read_at::of_bytes;
use crate::{Agent, LayoutKey, LayoutParts, LoadOptions, PlacedTensor, ShareError};

pub(super) const MIB: usize = 1 << 20;
/// Far longer than any operation takes.
pub(super) const LONG: Duration = Duration::from_mins(1);

pub(super) struct World {
    directory: TempDir,
    pub agent: Agent,
    pub server: Server<HostDevice>,
    pub registry: Arc<Registry>,
}

impl World {
    pub fn new(device_mib: usize) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = directory.path().join("store");
        let store = Arc::new(Store::create(&root, &CreateOptions::default()).unwrap());
        let capacity_bytes = (device_mib * MIB) as u64;
        let device = ServedDevice {
            id: DeviceId(0),
            device: Arc::new(HostDevice::new(capacity_bytes)),
            capacity_bytes,
        };
        let server = Server::start(vec![device], &ServerConfig::default()).unwrap();
        let socket = root.join("gpu");
        server.serve(TenantId(0), store, None, &socket).unwrap();
        Self {
            agent: Agent::open_store(&root).unwrap(),
            directory,
            server,
            registry: Arc::default(),
        }
    }

    /// Writes a model of tensors of 1 MiB each, filled with their numbers.
    pub fn file(&self, numbers: std::ops::Range<u8>) -> PathBuf {
        let path = self.directory.path().join(format!("{numbers:?}"));
        let bytes: Vec<_> = numbers.map(|number| vec![number; MIB]).collect();
        let view = |bytes| TensorView::new(safetensors::Dtype::U8, vec![MIB], bytes).unwrap();
        let tensors = bytes.iter().map(|bytes| (name(bytes[0]), view(bytes)));
        safetensors::serialize_to_file(tensors, None, &path).unwrap();
        path
    }

    fn load(
        &self,
        numbers: std::ops::Range<u8>,
        most: usize,
        options: &DeviceOptions,
    ) -> Result<DeviceModel, DeviceError> {
        let path = self.file(numbers);
        self.registry
            .load_in_parts(&self.agent, &path, options, most)
    }

    pub fn leases(&self) -> u32 {
        status(&self.agent, LONG).unwrap().leases
    }

    /// The server notices the end of a client a moment later.
    pub fn nothing_is_held(&self) {
        let end = std::time::Instant::now() + LONG;
        while self.leases() > 0 {
            assert!(std::time::Instant::now() < end, "something is still held");
            std::thread::yield_now();
        }
    }
}

fn name(number: u8) -> String {
    format!("tensor {number}")
}

fn simulated() -> DeviceOptions {
    DeviceOptions::new(Target::Simulated)
}

fn check(model: &DeviceModel) {
    for tensor in model.tensors() {
        assert!(tensor.wait(LONG).unwrap());
        let mut bytes = vec![0; MIB];
        tensor.read(&mut bytes).unwrap();
        let number: u8 = tensor.name()["tensor ".len()..].parse().unwrap();
        assert!(bytes == vec![number; MIB], "{}", tensor.name());
    }
}

#[test]
fn a_model_of_many_objects_takes_several_connections() {
    let world = World::new(64);
    let model = world.load(1..6, 2, &simulated()).unwrap();
    assert_eq!(world.leases(), 3);
    check(&model);
    assert!(model.wait(LONG).unwrap());
    assert_eq!(model.resident_bytes().unwrap(), 5 * MIB as u64);
    assert!(model.mapped_bytes() >= model.bytes());
    drop(model);
    world.nothing_is_held();
}

#[test]
fn a_part_that_is_refused_takes_the_others_along() {
    let world = World::new(4);
    let refused = world.load(1..9, 2, &simulated()).unwrap_err();
    let DeviceError::Mirror(ClientError::Refused(refused)) = refused else {
        panic!("{refused}");
    };
    assert_eq!(refused.reason, Reason::IN_USE);
    world.nothing_is_held();
    check(&world.load(1..3, 2, &simulated()).unwrap());
}

#[test]
fn an_order_of_names_is_one_of_objects() {
    let world = World::new(64);
    let path = world.file(0..5);
    let (tensors, report) = world.agent.load(&path).unwrap().detach();
    let tensors: Vec<_> = tensors.iter().map(StoredTensor::from).collect();
    let objects = split::objects(&tensors, &report).unwrap();
    let place = |number: u8| {
        let at = tensors
            .iter()
            .position(|tensor| tensor.name == name(number));
        at.unwrap()
    };
    let order = [3, 1, 3, 4].map(name);
    let options = DeviceOptions {
        order: [&["unknown".to_owned()][..], &order].concat(),
        wait: Duration::from_secs(3),
        ..simulated()
    };
    let whole = split::wanted(&objects, &tensors, &options.order, options.wait, 100);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].model, WantedModel::Objects(objects.clone()));
    assert_eq!(whole[0].order, [3, 1, 4].map(|number| place(number) as u32));
    assert_eq!(whole[0].wait, Duration::from_secs(3));
    // Each connection has the order of its objects.
    let parts = split::wanted(&objects, &tensors, &options.order, options.wait, 2);
    let orders: Vec<usize> = parts.iter().map(|part| part.order.len()).collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(orders.iter().sum::<usize>(), 3);
    for part in &parts {
        assert!(part.order.iter().all(|index| *index < 2));
    }
    check(&world.load(0..5, 100, &options).unwrap());
}

#[test]
fn a_model_is_mapped_once_for_each_registry() {
    let world = World::new(64);
    let kept = DeviceOptions {
        keep: true,
        ..simulated()
    };
    let first = world.load(1..4, 100, &kept).unwrap();
    let second = world.load(1..4, 100, &simulated()).unwrap();
    let address = |model: &DeviceModel| model.tensors()[0].address();
    assert_eq!(address(&first), address(&second));
    let other = Registry::default();
    let path = world.file(1..4);
    let third = other.load(&world.agent, &path, &simulated()).unwrap();
    assert_ne!(address(&first), address(&third));
    assert_eq!(world.leases(), 2);
    drop((first, second, third));
    assert_eq!(world.registry.release(), world.server_bytes());
    world.nothing_is_held();
}

impl World {
    fn server_bytes(&self) -> u64 {
        self.server.usage(DeviceId(0)).unwrap().created_bytes
    }
}

#[test]
fn a_load_can_be_called_off() {
    let world = World::new(4);
    let _held = world.load(1..5, 100, &simulated()).unwrap();
    let options = DeviceOptions {
        wait: LONG,
        ..simulated()
    };
    let cancelled = Arc::clone(&options.cancelled);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| world.load(10..14, 100, &options));
        while status(&world.agent, LONG).unwrap().waiting == 0 {
            assert!(!load.is_finished(), "it should wait");
            std::thread::yield_now();
        }
        cancelled.store(true, Ordering::Relaxed);
        let error = load.join().unwrap().unwrap_err();
        assert!(matches!(error, DeviceError::Cancelled), "{error}");
    });
    let error = world.load(10..14, 100, &options).unwrap_err();
    assert!(matches!(error, DeviceError::Cancelled), "{error}");
}

#[test]
fn a_mirror_says_what_it_has() {
    let world = World::new(4);
    let listed = devices(&world.agent, LONG, Numbering::AskDriver).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].location, Some(super::super::Location::Simulated));
    assert_eq!(listed[0].capacity_bytes, 4 * MIB as u64);
    for target in [Target::AnyCuda, Target::Cuda(0)] {
        let options = DeviceOptions::new(target);
        let error = world.load(1..2, 100, &options).unwrap_err();
        assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
    }
    let error = devices(&Agent::without_store(), LONG, Numbering::IfInitialized).unwrap_err();
    assert!(matches!(error, DeviceError::NoStore { .. }), "{error}");
}

impl World {
    /// The regions of a layout of two tensors of 1 MiB, filled with their numbers.
    fn layout(&self) -> Vec<Arc<Region>> {
        let build = || -> Result<LayoutParts, ShareError> {
            let tensor = |number: u8, region| PlacedTensor {
                name: name(number),
                dtype: Dtype::U8,
                shape: vec![MIB as u64],
                strides: vec![1],
                region: Some(region),
                offset: 0,
                alias: None,
            };
            let publish = |number: u8| {
                let bytes = vec![number; MIB];
                let read = of_bytes(&bytes);
                self.agent
                    .publish(MIB as u64, &read, &LoadOptions::default())
            };
            Ok(LayoutParts {
                tensors: vec![tensor(1, publish(1)?), tensor(2, publish(2)?)],
                ..LayoutParts::default()
            })
        };
        let key = LayoutKey::new("fused", 1);
        let layout = self.agent.layout(&key, &LoadOptions::default(), build);
        let layout = layout.unwrap().unwrap();
        let tensors = layout.parts().tensors.iter();
        tensors.filter_map(|tensor| tensor.region.clone()).collect()
    }
}

#[test]
fn a_layout_has_its_objects_in_common_with_files() {
    let world = World::new(64);
    // Made, and then found.
    for _ in 0..2 {
        let regions = world.layout();
        let registry = Registry::default();
        let model = registry.load_regions(&world.agent, &regions, &simulated());
        let model = model.unwrap();
        for (tensor, number) in model.tensors().iter().zip(1..) {
            assert!(tensor.wait(LONG).unwrap());
            let mut bytes = vec![0; MIB];
            tensor.read(&mut bytes).unwrap();
            assert!(bytes == vec![number; MIB]);
        }
        assert_eq!(model.bytes(), 2 * MIB as u64);
        let file = world.load(2..4, 100, &simulated()).unwrap();
        check(&file);
        let usage = world.server.usage(DeviceId(0)).unwrap();
        assert_eq!(usage.live_bytes, 3 * MIB as u64, "one tensor is in both");
        assert_eq!(world.leases(), 2);
        drop((model, file));
        world.nothing_is_held();
    }
}

#[test]
fn memory_outside_of_the_store_is_refused() {
    let world = World::new(64);
    let mut regions = world.layout();
    regions.push(Arc::new(Region::zeroed(MIB).unwrap()));
    let refused = world
        .registry
        .load_regions(&world.agent, &regions, &simulated());
    match refused.unwrap_err() {
        DeviceError::Private { bytes, reason } => {
            assert_eq!(bytes, MIB as u64);
            assert!(reason.contains("never published"), "{reason}");
        }
        other => panic!("{other}"),
    }
    world.nothing_is_held();
}

/// The model of a file, once loads have bound the file's identity: not while it is too new.
fn known(world: &World, path: &Path) -> KnownModel {
    let end = std::time::Instant::now() + LONG;
    loop {
        drop(world.agent.load(path).unwrap());
        match world.agent.known_model(path, &LoadOptions::default()) {
            Some(known) => return known,
            None => assert!(std::time::Instant::now() < end, "it stays unknown"),
        }
    }
}

#[test]
fn a_known_model_is_not_mapped_in_host_memory() {
    let world = World::new(64);
    let path = world.file(1..6);
    drop(
        world
            .registry
            .load(&world.agent, &path, &simulated())
            .unwrap(),
    );
    let (known, tensors) = (known(&world, &path), world.agent.load(&path).unwrap());
    let names = |known: &KnownModel| -> Vec<_> {
        known
            .tensors
            .iter()
            .map(|tensor| (tensor.name.clone(), tensor.id, tensor.len))
            .collect()
    };
    let loaded = tensors
        .tensors()
        .map(|tensor| (tensor.name().to_owned(), tensor.id(), MIB as u64));
    assert_eq!(names(&known), loaded.collect::<Vec<_>>());
    assert_eq!(known.report.bytes_shared, 5 * MIB as u64);
    drop(tensors);
    world.nothing_is_held();
    let loads = world.agent.counters().loads;
    let model = world
        .registry
        .load(&world.agent, &path, &simulated())
        .unwrap();
    check(&model);
    assert_eq!(model.report().recognized, known.report.recognized);
    assert_eq!(model.report().bytes_shared, 5 * MIB as u64);
    assert_eq!(world.agent.counters().loads, loads + 1);
}

#[test]
fn a_known_model_whose_objects_have_left_the_store_is_published_again() {
    let world = World::new(8);
    let path = world.file(1..6);
    check(&world.load(1..6, 9, &simulated()).unwrap());
    world.nothing_is_held();
    // Another model takes its room on the device.
    check(&world.load(10..16, 9, &simulated()).unwrap());
    world.nothing_is_held();
    let store = world.agent.store().unwrap();
    let known = known(&world, &path);
    let (object, _) = known.tensors[4].place.unwrap();
    std::fs::remove_file(store.object_path(&object)).unwrap();
    let model = world
        .registry
        .load(&world.agent, &path, &simulated())
        .unwrap();
    check(&model);
    assert_eq!(model.report().bytes_new, MIB as u64);
    assert!(store.contains(&object));
}

#[test]
fn a_file_that_has_changed_is_not_known() {
    let world = World::new(64);
    let path = world.file(1..3);
    check(&world.load(1..3, 9, &simulated()).unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(world.file(3..5), &path).unwrap();
    assert!(
        world
            .agent
            .known_model(&path, &LoadOptions::default())
            .is_none()
    );
    check(
        &world
            .registry
            .load(&world.agent, &path, &simulated())
            .unwrap(),
    );
}

#[test]
fn a_known_model_counts_only_if_its_file_has_the_bytes() {
    let world = World::new(64);
    let path = world.file(1..3);
    check(&world.load(1..3, 9, &simulated()).unwrap());
    let (known, options) = (known(&world, &path), LoadOptions::default());
    let asked = Cell::new(0);
    let ask = || asked.replace(asked.get() + 1);
    assert_eq!(known.while_compared(&world.agent, &options, ask), Some(0));
    // The same file, with other bytes behind its header.
    let mut bytes = std::fs::read(&path).unwrap();
    let len = bytes.len();
    bytes[len - 2 * MIB..].fill(77);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(known.while_compared(&world.agent, &options, ask), None);
    assert_eq!(asked.get(), 2, "it is asked meanwhile");
}
