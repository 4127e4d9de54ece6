//! `gpu-status`, of a mirror over the simulated device.

use std::sync::Arc;

use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_server::residency::{DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig};
use tetris_store_layout::{Access, Store};

use crate::site::{Site, run, tetris};

const LONG: std::time::Duration = std::time::Duration::from_secs(50);

#[test]
fn devices_and_what_is_held_on_them_are_shown() {
    let site = Site::new();
    let store = Arc::new(Store::open(site.store_dir()).unwrap());
    let device = HostDevice::new(64 << 20);
    let served = ServedDevice {
        id: DeviceId(3),
        device: Arc::new(device.clone()),
        capacity_bytes: 32 << 20,
    };
    let server = Server::start(vec![served], &ServerConfig::default()).unwrap();
    let socket = site.store_dir().join("gpu");
    let object = store.publish(&vec![7; 3 << 20], Access::ReadOnly).unwrap();
    server
        .serve(TenantId(0), Arc::clone(&store), None, &socket)
        .unwrap();
    let client = Client::connect(&socket, MemoryKind::Host, LONG).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(vec![object.object]));
    let model = client.acquire(Arc::new(HostDevice::new(0)), &wanted, &mut |_| {});
    let model = model.unwrap();
    model.wait_all(LONG).unwrap();

    let json = site
        .run(&["gpu-status", "--format", "json"])
        .expect(0)
        .json();
    assert_eq!(json["implementation"], "simulated");
    assert_eq!(json["socket"], socket.to_str().unwrap());
    assert_eq!((&json["holding"], &json["waiting"]), (&1.into(), &0.into()));
    let shown = &json["devices"][0];
    for (field, expected) in [
        ("number", 3),
        ("capacity_bytes", 32 << 20),
        ("total_bytes", 64 << 20),
        ("free_bytes", 60 << 20),
        ("chunk_bytes", 4 << 20),
        ("object_bytes", 3 << 20),
        ("held_bytes", 3 << 20),
        ("models", 1),
        ("held_models", 1),
    ] {
        assert_eq!(shown[field], expected, "{field}: {json}");
    }
    assert_eq!(shown["works"], true);
    let mut command = tetris();
    command.args(["--store", "/nowhere", "gpu-status", "--socket"]);
    let text = run(command.arg(&socket)).expect(0).stdout;
    assert!(text.contains("1 hold a model, 0 wait for room"), "{text}");
    assert!(text.contains("32.0 MiB  4.00 MiB  3.00 MiB"), "{text}");

    device.lose();
    server.check();
    let end = std::time::Instant::now() + LONG;
    loop {
        let text = site.run(&["gpu-status"]).expect(0).stdout;
        if text.contains("  lost  ") {
            break;
        }
        assert!(std::time::Instant::now() < end, "{text}");
    }
}

#[test]
fn without_a_mirror_it_says_where_it_looked_and_what_to_do() {
    let site = Site::new();
    let run = site.run(&["gpu-status"]).expect(1);
    let socket = site.store_dir().join("gpu");
    assert!(run.stderr.contains(socket.to_str().unwrap()), "{run:?}");
    assert!(run.stderr.contains("table `gpu_mirror`"), "{run:?}");
    assert_eq!(run.stdout, "");
}

#[test]
fn the_environment_names_the_socket_and_the_flag_goes_before_it() {
    let asked = |more: &[&str]| {
        let mut command = tetris();
        command.env("TETRIS_GPU_SOCKET", "/named/by/environment");
        command.arg("gpu-status").args(more);
        run(&mut command).expect(1).stderr
    };
    assert!(asked(&[]).contains("/named/by/environment"));
    let flag = asked(&["--socket", "/named/by/flag"]);
    assert!(flag.contains("/named/by/flag"), "{flag}");
}
