//! The mirror follows the stores that are open. The device is simulated.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{MemoryError, MemoryKind};
use tetris_store_layout::{Access, CreateOptions, Store};

use super::devices::serve;
use super::opening::opened;
use super::orders::Orders;
use super::*;
use crate::config::ConfigFile;
use crate::store::OpenStore;

const LONG: Duration = Duration::from_secs(50);

fn config(text: &str) -> Result<GpuMirrorConfig, String> {
    let text = format!("[[stores]]\nname = \"a\"\npath = \"/a\"\n[gpu_mirror]\n{text}");
    let file = ConfigFile::parse(&text, Path::new("file"));
    let file = file.map_err(|error| error.to_string())?;
    let checked = file.check().map_err(|error| error.to_string())?;
    Ok(checked.file.gpu_mirror.unwrap())
}

fn mirror(config: &GpuMirrorConfig) -> GpuMirror {
    mirror_of(
        config,
        &HostDevice::new(64 << 20),
        &GpuMirrorView::new(config.implementation),
    )
}

fn mirror_of(
    config: &GpuMirrorConfig,
    device: &HostDevice,
    view: &Arc<GpuMirrorView>,
) -> GpuMirror {
    let opened = serve(config, &[0], |_| Ok(device.clone())).unwrap();
    GpuMirror::new(opened, config.clone(), Arc::clone(view))
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
    assert_eq!((least.store_bytes, &least.socket_dir), (None, &None));
    assert_eq!((least.group_bytes, least.streams), (None, 2));
    assert_eq!((least.pinned_bytes, least.pinned_secs), (16 << 30, 60));
    assert_eq!((least.connections, least.connections_per_user), (1024, 256));
    assert!(least.writable_registration && least.copy_across);
    assert_eq!((least.spare_bytes, least.light_ms), (0, 20));
    assert_eq!(
        (least.link_bytes_per_sec, &least.switches),
        (None, &Vec::new())
    );
    assert_eq!((least.template_bytes, least.template_ttft_ms), (0, 500));
    let off = config("device_bytes = 1000\nwritable_registration = false").unwrap();
    assert!(!off.writable_registration);
    for (line, wrong) in [
        ("", "device_bytes"),
        ("device_bytes = 0", "device_bytes"),
        ("device_bytes = 1\nstore_bytes = 0", "store_bytes"),
        ("device_bytes = 1\nchunk_bytes = 1000", "chunk_bytes"),
        ("device_bytes = 1\nchunk_bytes = 0", "chunk_bytes"),
        ("device_bytes = 1\ndevices = [1, 1]", "devices"),
        ("device_bytes = 1\nsocket_dir = \"here\"", "socket_dir"),
        ("device_bytes = 1\nno_such = 1", "no_such"),
        ("device_bytes = 1\ngroup_bytes = 65535", "group_bytes"),
        ("device_bytes = 1\ngroup_bytes = 67108865", "group_bytes"),
        ("device_bytes = 1\npinned_secs = 86401", "pinned_secs"),
        ("device_bytes = 1\ntemplate_ttft_ms = 0", "template_ttft_ms"),
        ("device_bytes = 1\nstreams = 0", "streams"),
        ("device_bytes = 1\nstreams = 17", "streams"),
        ("device_bytes = 1\nconnections = 0", "connections"),
        ("device_bytes = 1\nconnections = 65537", "connections"),
        (
            "device_bytes = 1\nconnections_per_user = 0",
            "connections_per_user",
        ),
        (
            "device_bytes = 1\nconnections = 9\nconnections_per_user = 10",
            "connections_per_user",
        ),
        (
            "device_bytes = 1\nimplementation = \"rocm\"",
            "implementation",
        ),
        ("device_bytes = 1\nspare_bytes = 2", "spare_bytes"),
        ("device_bytes = 1\nlight_ms = 60001", "light_ms"),
        (
            "device_bytes = 1\nlink_bytes_per_sec = 0",
            "link_bytes_per_sec",
        ),
        ("device_bytes = 1\nswitches = [\"a\"]", "switches"),
    ] {
        let mistake = config(line).unwrap_err();
        assert!(mistake.contains(wrong), "{line}: {mistake}");
    }
}

#[test]
fn stores_that_are_open_are_served_and_no_others() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config("device_bytes = 33554432\nchunk_bytes = 2097152").unwrap();
    let view = GpuMirrorView::new(config.implementation);
    let mut mirror = mirror_of(&config, &HostDevice::new(64 << 20), &view);
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
    let wanted = Wanted::new(WantedModel::Objects(vec![object]));
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
    let status = view.status();
    let counters = status.report.counters;
    assert_eq!((counters.admitted, counters.released), (1, 1));
    assert!(status.running);
    assert!(status.stores.into_values().eq(["other"]));
    drop(mirror);
    let status = view.status();
    assert!(!status.running && status.stores.is_empty());
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

/// Changes of a reload, and the fields that it names.
#[test]
fn quotas_and_limits_change_while_it_runs_and_the_rest_is_named() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let old = config("device_bytes = 33554432\nchunk_bytes = 2097152").unwrap();
    let mut mirror = mirror(&old);
    let (one, first) = store(directory.path(), "one");
    mirror.serve(std::slice::from_ref(&first));
    let object = one.publish(&vec![1; 3 << 20], Access::ReadOnly).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(vec![object.object]));
    let connect = || Client::connect(&first.root.join("gpu"), MemoryKind::Host, LONG);
    let acquire = |client: Client| {
        let device = Arc::new(HostDevice::new(0));
        client.acquire(device, &wanted, &mut |_| {})
    };
    drop(acquire(connect().unwrap()).unwrap());
    let mut new = GpuMirrorConfig {
        store_bytes: Some(2 << 20),
        connections_per_user: 1,
        ..old.clone()
    };
    assert_eq!(needs_restart(Some(&old), Some(&new)), None);
    mirror.configure(&new);
    // The first connection counts until the server has noticed its end.
    let end = std::time::Instant::now() + LONG;
    let client = loop {
        match connect() {
            Ok(client) => break client,
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        std::thread::yield_now();
    };
    assert!(connect().is_err(), "one connection is permitted");
    drop(client);
    mirror.configure(&GpuMirrorConfig {
        connections_per_user: 9,
        ..new.clone()
    });
    // The old model is evicted, and the quota is too small for it now.
    let other = one.publish(&vec![2; 3 << 20], Access::ReadOnly).unwrap();
    let too_much = Wanted::new(WantedModel::Objects(vec![other.object]));
    let device = Arc::new(HostDevice::new(0));
    let refused = connect().unwrap().acquire(device, &too_much, &mut |_| {});
    assert!(
        matches!(refused, Err(ClientError::Refused(_))),
        "{refused:?}"
    );
    mirror.configure(&old);
    drop(acquire(connect().unwrap()).unwrap());

    new.streams = 3;
    new.device_bytes = 1;
    new.writable_registration = false;
    let named = needs_restart(Some(&old), Some(&new)).unwrap();
    assert_eq!(
        named,
        "gpu_mirror.device_bytes, gpu_mirror.writable_registration, gpu_mirror.streams"
    );
    let table = needs_restart(Some(&old), None);
    assert_eq!(table.as_deref(), Some("gpu_mirror"));
    assert_eq!(needs_restart(None, None), None);
}

#[test]
fn a_lost_device_is_told_and_the_mirror_goes_on() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config("device_bytes = 33554432").unwrap();
    let device = HostDevice::new(64 << 20);
    let view = GpuMirrorView::new(config.implementation);
    let mut mirror = mirror_of(&config, &device, &view);
    let (one, first) = store(directory.path(), "one");
    mirror.serve(std::slice::from_ref(&first));
    let object = one.publish(b"weights", Access::ReadOnly).unwrap().object;
    let wanted = Wanted::new(WantedModel::Objects(vec![object]));
    let acquire = || {
        let client = Client::connect(&first.root.join("gpu"), MemoryKind::Host, LONG);
        let device = Arc::new(HostDevice::new(0));
        client.unwrap().acquire(device, &wanted, &mut |_| {})
    };
    let acquired = acquire().unwrap();
    assert_eq!(acquired.read(&object.id, LONG).unwrap(), b"weights");
    device.lose();
    // What the daemon does after each pass.
    mirror.check();
    let end = std::time::Instant::now() + LONG;
    while view.status().report.devices[0].lost.is_none() {
        assert!(std::time::Instant::now() < end, "nobody noticed");
        std::thread::yield_now();
    }
    let refused = acquire().unwrap_err().to_string();
    assert!(
        refused.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"),
        "{refused}"
    );
    assert!(refused.contains("load into host memory"), "{refused}");
    assert_eq!(acquired.read(&object.id, LONG).unwrap(), b"weights");
    let status = view.status();
    assert!(status.running);
    assert_eq!(status.report.counters.refused, 1);
}

#[test]
fn a_device_that_cannot_be_used_does_not_keep_the_others_from_it() {
    let config = config("device_bytes = 33554432").unwrap();
    let broken = |asked| MemoryError::NoSuchDevice { asked, found: 1 };
    let open = |number| match number {
        0 => Ok(HostDevice::new(64 << 20)),
        other => Err(broken(other)),
    };
    let opened = serve(&config, &[0, 1], open).unwrap();
    assert_eq!(opened.missing, 1);
    assert_eq!(opened.server.report().devices.len(), 1);
    let none = serve(&config, &[1, 2], open).err().unwrap().to_string();
    assert!(none.contains("found 1"), "{none}");
    assert!(serve(&config, &[], open).is_err());
}

/// `cuInit` answers 802 for minutes after a machine has started.
#[test]
fn devices_that_are_not_ready_are_opened_later_and_stores_ordered_meanwhile_are_served() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (_one, first) = store(directory.path(), "one");
    let config = config("device_bytes = 33554432").unwrap();
    let view = GpuMirrorView::new(config.implementation);
    let orders = Orders::default();
    let (done, served) = std::sync::mpsc::sync_channel(1);
    assert!(orders.serve((vec![first.clone()], config.clone()), done));
    let mut tries = 0;
    let reopened = opened(&config, &view, &orders, |config| {
        tries += 1;
        if tries > 1 {
            return serve(config, &[0], |_| Ok(HostDevice::new(64 << 20)));
        }
        let reason = "cuInit answered CUDA_ERROR_SYSTEM_NOT_READY (802)".to_owned();
        Err(MemoryError::NoDriver { reason }.into())
    });
    let (_server, wanted) = reopened.unwrap();
    served.recv_timeout(LONG).unwrap();
    assert_eq!(tries, 2);
    assert_eq!(wanted.unwrap().0, [first]);
    let reason = view.status().reason.unwrap();
    assert!(reason.contains("802"), "{reason}");
}

#[test]
fn a_server_that_can_never_start_is_not_tried_again() {
    let config = config("device_bytes = 33554432").unwrap();
    let view = GpuMirrorView::new(config.implementation);
    let mut tries = 0;
    let never = opened(&config, &view, &Orders::default(), |_| {
        tries += 1;
        Err(tetris_gpu_server::ServerError::Devices { most: 64 })
    });
    assert!(never.is_none());
    assert_eq!(tries, 1);
}
