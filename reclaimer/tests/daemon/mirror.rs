//! The GPU mirror on a machine without a GPU.

use std::path::Path;

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
