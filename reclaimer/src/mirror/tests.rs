//! The mirror follows the stores that are open. With the stand-in for a device.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_mirror::client::{Client, ClientError, Model, Wanted};
use tetris_gpu_mirror::memory::MemoryKind;
use tetris_gpu_mirror::memory::host::HostDevice;
use tetris_gpu_mirror::residency::DeviceId;
use tetris_gpu_mirror::server::{ServedDevice, Server};
use tetris_store_layout::{Access, CreateOptions, Store};

use super::devices::server_config;
use super::*;
use crate::config::ConfigFile;
use crate::node::OpenStore;

const LONG: Duration = Duration::from_secs(50);

fn config(text: &str) -> Result<GpuMirrorConfig, String> {
    let text = format!("[[stores]]\nname = \"a\"\npath = \"/a\"\n[gpu_mirror]\n{text}");
    let file = ConfigFile::parse(&text, Path::new("file"));
    let file = file.map_err(|error| error.to_string())?;
    let checked = file.check().map_err(|error| error.to_string())?;
    Ok(checked.file.gpu_mirror.unwrap())
}

fn mirror(config: &GpuMirrorConfig) -> Mirror {
    let served = ServedDevice {
        id: DeviceId(0),
        device: Arc::new(HostDevice::new(64 << 20)),
        capacity_bytes: config.device_bytes,
    };
    let server = Server::start(vec![served], &server_config(config)).unwrap();
    Mirror::new(Box::new(server), config.clone())
}

fn store(root: &Path, name: &str) -> (Store, OpenStore) {
    let root = root.join(name);
    let store = Store::create(&root, &CreateOptions::default()).unwrap();
    let open = OpenStore {
        name: name.to_owned(),
        objects: store.objects_dir(),
        id: store.id(),
        root,
    };
    (store, open)
}

#[test]
fn fields_have_defaults_and_bounds() {
    let least = config("device_bytes = 1000").unwrap();
    assert_eq!(least.chunk_bytes, 256 << 20);
    assert_eq!((least.store_bytes, least.socket_dir), (None, None));
    for (line, wrong) in [
        ("", "device_bytes"),
        ("device_bytes = 0", "device_bytes"),
        ("device_bytes = 1\nstore_bytes = 0", "store_bytes"),
        ("device_bytes = 1\nchunk_bytes = 1000", "chunk_bytes"),
        ("device_bytes = 1\nchunk_bytes = 0", "chunk_bytes"),
        ("device_bytes = 1\ndevices = [1, 1]", "devices"),
        ("device_bytes = 1\nsocket_dir = \"here\"", "socket_dir"),
        ("device_bytes = 1\nno_such = 1", "no_such"),
        ("device_bytes = 1\nimplementation = \"rocm\"", "implementation"),
        (
            "device_bytes = 1\nimplementation = \"stand-in\"\ndevices = [0]",
            "devices",
        ),
    ] {
        let found = config(line).unwrap_err();
        assert!(found.contains(wrong), "{line}: {found}");
    }
}

#[test]
fn stores_that_are_open_are_served_and_no_others() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config("device_bytes = 33554432\nchunk_bytes = 2097152").unwrap();
    let mut mirror = mirror(&config);
    let (one, first) = store(directory.path(), "one");
    let (_other, second) = store(directory.path(), "other");
    let connect =
        |store: &OpenStore| Client::connect(&store.root.join("gpu"), MemoryKind::Host, LONG);
    mirror.serve(std::slice::from_ref(&first));
    assert!(matches!(
        connect(&second),
        Err(ClientError::NoServer { .. })
    ));
    let object = one.publish(b"weights", Access::ReadOnly).unwrap().object;
    let wanted = Wanted::new(Model::Objects(vec![object]));
    let device = Arc::new(HostDevice::new(0));
    let model = connect(&first).unwrap();
    let model = model.acquire(device, &wanted, &mut |_| {}).unwrap();
    assert_eq!(model.read(&object.id, LONG).unwrap(), b"weights");
    mirror.serve(&[first.clone(), second.clone()]);
    assert!(connect(&second).is_ok() && connect(&first).is_ok());
    mirror.serve(std::slice::from_ref(&second));
    assert!(matches!(connect(&first), Err(ClientError::NoServer { .. })));
    assert!(connect(&second).is_ok());
    assert_eq!(
        model.read(&object.id, LONG).unwrap(),
        b"weights",
        "its mapping stays"
    );
    let counters = mirror.counters();
    assert_eq!((counters.admitted, counters.released), (1, 1));
    drop(mirror);
    assert!(matches!(
        connect(&second),
        Err(ClientError::NoServer { .. })
    ));
}

#[test]
fn sockets_may_have_a_folder_of_their_own() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let folder = directory.path().join("sockets");
    std::fs::create_dir(&folder).unwrap();
    let (_one, first) = store(directory.path(), "one");
    let mut config = config("device_bytes = 33554432").unwrap();
    config.socket_dir = Some(folder.clone());
    let mut mirror = mirror(&config);
    mirror.serve(&[first]);
    assert!(Client::connect(&folder.join("one"), MemoryKind::Host, LONG).is_ok());
}

#[test]
fn a_store_that_cannot_be_served_does_not_keep_others_from_it() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config("device_bytes = 33554432").unwrap();
    let mut mirror = mirror(&config);
    let (_one, first) = store(directory.path(), "one");
    let (_other, second) = store(directory.path(), "other");
    // A folder has the socket's name.
    std::fs::create_dir(first.root.join("gpu")).unwrap();
    mirror.serve(&[first.clone(), second.clone()]);
    assert!(Client::connect(&second.root.join("gpu"), MemoryKind::Host, LONG).is_ok());
    std::fs::remove_dir(first.root.join("gpu")).unwrap();
    mirror.serve(&[first.clone(), second]);
    assert!(Client::connect(&first.root.join("gpu"), MemoryKind::Host, LONG).is_ok());
}
