//! The GPU mirror on a machine without a GPU.

use std::path::Path;

use std::time::Duration;

use tetris_gpu_mirror::client::Client;
use tetris_gpu_mirror::memory::MemoryKind;

use crate::harness::{Daemon, Place};
use crate::skipped::skipped;

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
fn the_stand_in_serves_without_a_driver_and_says_what_it_is() {
    let place = Place::new();
    let store = place.store();
    let table = "[gpu_mirror]\nimplementation = \"stand-in\"\ndevice_bytes = 67108864";
    let daemon = Daemon::start(&place.config(table), &[]);
    let line = daemon.says("the GPU mirror is a stand-in");
    assert!(line.contains("WARN"), "{line}");
    daemon.says("socket=");
    let socket = store.root().join("gpu");
    let mut client = Client::connect(&socket, MemoryKind::Host, Duration::from_secs(60)).unwrap();
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].capacity_bytes, 67_108_864);
    assert!(daemon.stop().success());
    assert!(!socket.exists());
}
