//! The GPU mirror on a machine without a GPU.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;

use nix::sys::signal::Signal;
use tetris_store_layout::Reclaimed;

use crate::daemon::harness::{Daemon, Place, eventually};
use tetris_test_support::skipped::skipped;

#[test]
fn without_a_driver_the_daemon_says_so_once_and_goes_on() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        skipped("there is a driver");
        return;
    }
    let place = Place::new();
    let store = place.store();
    let table = "listen = \"127.0.0.1:0\"\n[gpu_mirror]\ndevice_bytes = 1000000";
    let daemon = Daemon::start(&place.config(table), &[]);
    let line = daemon.says("no GPU mirror");
    assert!(line.contains("no usable CUDA driver"), "{line}");
    assert!(daemon.get("/healthz").contains("200 OK"));
    assert_eq!(daemon.log().matches("no GPU mirror").count(), 1);
    assert!(!store.root().join("gpu").exists());
    assert!(daemon.stop().success());
}

#[test]
fn the_simulated_device_serves_without_a_driver_and_says_what_it_is() {
    let place = Place::new();
    let store = place.store();
    let table = "[gpu_mirror]\nimplementation = \"simulated\"\ndevice_bytes = 67108864";
    let daemon = Daemon::start(&place.config(table), &[]);
    let line = daemon.says("the GPU mirror is simulated");
    assert!(line.contains("WARN"), "{line}");
    daemon.says("socket=");
    let socket = store.root().join("gpu");
    let mut client = Client::connect(&socket, MemoryKind::Host, Duration::from_mins(1)).unwrap();
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].capacity_bytes, 67_108_864);
    assert!(daemon.stop().success());
    assert!(!socket.exists());
}

/// Returns true if a series has this value.
fn shows(daemon: &Daemon, series: &str, value: u64) -> bool {
    let line = format!("{series} {value}");
    daemon.get("/metrics").lines().any(|found| found == line)
}

#[test]
fn metrics_of_the_mirror_are_served_and_a_reload_names_what_needs_a_restart() {
    let place = Place::new();
    let store = place.store();
    let table = |more: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\n[gpu_mirror]\nimplementation = \"simulated\"\ndevice_bytes = 67108864\n{more}"
        )
    };
    let config = place.config(&table("group_bytes = 131072"));
    let daemon = Daemon::start(&config, &[]);
    daemon.says("socket=");
    let device = "device=\"73696d75-6c61-7465-6420-646576203031\"";
    let group = format!("tetris_gpu_group_bytes{{{device}}}");
    assert!(shows(&daemon, &group, 131_072));
    let up = "tetris_gpu_mirror_up{implementation=\"simulated\"}";
    assert!(shows(&daemon, up, 1));
    place.config(&table(
        "group_bytes = 65536\nstreams = 3\nstore_bytes = 4194304",
    ));
    daemon.signal(Signal::SIGHUP);
    let line = daemon.says("take force when the daemon is restarted");
    assert!(
        line.contains("gpu_mirror.group_bytes, gpu_mirror.streams"),
        "{line}"
    );
    assert!(!line.contains("store_bytes"), "{line}");
    let quota = "tetris_gpu_store_quota_bytes{store=\"a\"}";
    eventually("the new quota", || {
        shows(&daemon, quota, 4_194_304).then_some(())
    });
    assert!(shows(&daemon, &group, 131_072));
    assert!(store.root().join("gpu").exists());
    assert!(daemon.stop().success());
}

#[test]
fn without_a_driver_the_metrics_say_that_the_mirror_is_down() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        skipped("there is a driver");
        return;
    }
    let place = Place::new();
    place.store();
    let table = "listen = \"127.0.0.1:0\"\n[gpu_mirror]\ndevice_bytes = 1000000";
    let daemon = Daemon::start(&place.config(table), &[]);
    daemon.says("no GPU mirror");
    let up = "tetris_gpu_mirror_up{implementation=\"cuda\"}";
    assert!(shows(&daemon, up, 0));
    assert!(daemon.stop().success());
}

/// A load that needs the room gets objects that only the GPU mirror has registered, for loads to
/// come.
#[test]
fn a_full_store_gets_room_from_what_the_mirror_has_registered() {
    let Some(place) = Place::of_size(4 << 20) else {
        return;
    };
    let store = place.store();
    let table = "listen = \"127.0.0.1:0\"\n[policy]\nhigh_watermark_percent = 100\nlow_watermark_percent = 100\n\
        [scrub]\nenabled = false\n[gpu_mirror]\nimplementation = \"simulated\"\ndevice_bytes = 67108864\n\
        pinned_secs = 86400";
    let daemon = Daemon::start(&place.config(table), &[]);
    daemon.says("socket=");
    eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    for seed in [1, 2] {
        drop(place.load(1_500_000, seed));
    }
    let objects: Vec<_> = {
        let listed = store.objects().unwrap().objects;
        listed.iter().map(|entry| entry.object).collect()
    };
    let socket = store.root().join("gpu");
    let client = Client::connect(&socket, MemoryKind::Host, Duration::from_mins(1)).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
    let device = Arc::new(HostDevice::new(0));
    let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
    model.wait_all(Duration::from_mins(1)).unwrap();
    let device = "device=\"73696d75-6c61-7465-6420-646576203031\"";
    let pinned = format!("tetris_gpu_pinned_bytes{{{device}}}");
    let bytes: u64 = objects.iter().map(|object| object.len).sum();
    // Pages are registered once no transfer runs.
    eventually("registered pages", || {
        shows(&daemon, &pinned, bytes).then_some(())
    });
    let reclaimed = store.reclaim(&objects[0]).unwrap();
    assert_eq!(reclaimed, Reclaimed::Referenced);
    let loaded = place.load(1_500_000, 3);
    let report = loaded.report();
    assert!(report.private_reason.is_none(), "{report:?}");
    daemon.says("released pages");
    assert!(shows(&daemon, &pinned, 0));
    // The device has its own copy.
    for object in &objects {
        let read = model.read(&object.id, Duration::from_mins(1)).unwrap();
        assert_eq!(read.len() as u64, object.len);
    }
    assert!(daemon.stop().success());
}
