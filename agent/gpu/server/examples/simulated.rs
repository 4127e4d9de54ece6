//! Serves a store on the simulated device until it is killed, to try the mirror on a machine
//! without a GPU:
//!
//!     cargo run -p tetris-gpu-server --example simulated -- STORE SOCKET DEVICE_BYTES [STORE_BYTES]
//!
//! Chunks are 4 MiB, so that models of some MiB have several. Prefixes may take half of the device. Prints a line once clients can
//! connect.
#![allow(
    clippy::print_stdout,
    reason = "the starting process waits for the line"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_device::host::HostDevice;
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::residency::{self, DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig, TemplateConfig};
use tetris_store_layout::Store;

const CHUNK_BYTES: u64 = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (store, socket, device_bytes, store_bytes) = match arguments.as_slice() {
        [store, socket, device] => (store, socket, device.parse()?, None),
        [store, socket, device, quota] => (store, socket, device.parse()?, Some(quota.parse()?)),
        _ => return Err("expected STORE SOCKET DEVICE_BYTES [STORE_BYTES]".into()),
    };
    let device = ServedDevice {
        id: DeviceId(0),
        device: Arc::new(HostDevice::new(device_bytes)),
        capacity_bytes: device_bytes,
    };
    let standard = ArenaConfig::default();
    let arena = ArenaConfig::try_new(
        standard.granule_bytes(),
        CHUNK_BYTES,
        standard.align_bytes(),
        standard.waste_percent(),
    )?;
    let config = ServerConfig {
        residency: residency::Config {
            arena,
            ..residency::Config::default()
        },
        // Tests check the references to the store's objects, and the server must not hold any for
        // long.
        keep_pinned: Duration::ZERO,
        templates: TemplateConfig {
            budget_bytes: device_bytes / 2,
            ..TemplateConfig::default()
        },
        ..ServerConfig::default()
    };
    let server = Server::start(vec![device], &config)?;
    let store = Arc::new(Store::open(store)?);
    server.serve(TenantId(0), store, store_bytes, Path::new(socket))?;
    println!("serving");
    loop {
        std::thread::park();
    }
}
