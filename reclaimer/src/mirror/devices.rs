//! The devices of this machine.

use std::sync::Arc;

use tetris_gpu_mirror::copy::ExecutorConfig;
use tetris_gpu_mirror::memory::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_mirror::memory::{DeviceMemory, MemoryError};
use tetris_gpu_mirror::residency::{self, DeviceId};
use tetris_gpu_mirror::server::{Limits, ServedDevice, Server, ServerConfig, ServerError};

use super::{GpuMirrorConfig, Serves};

/// A server over the devices that `config` names: by descriptors, or by legacy handles if one of them cannot do the former.
pub fn open(config: &GpuMirrorConfig) -> Result<Box<dyn Serves>, ServerError> {
    let numbers = if config.devices.is_empty() {
        (0..device_count()?).collect()
    } else {
        config.devices.clone()
    };
    match serve(config, &numbers, VmmDevice::open) {
        Err(ServerError::Memory(MemoryError::Unsupported { what, .. })) => {
            tracing::warn!(
                missing = what,
                "device memory is shared by legacy IPC handles"
            );
            let server = serve(config, &numbers, IpcDevice::open)?;
            Ok(Box::new(server))
        }
        server => Ok(Box::new(server?)),
    }
}

fn serve<D: DeviceMemory + 'static>(
    config: &GpuMirrorConfig,
    numbers: &[u32],
    open: impl Fn(u32) -> Result<D, MemoryError>,
) -> Result<Server<D>, ServerError> {
    let served = |number: &u32| {
        Ok(ServedDevice {
            id: DeviceId(*number),
            device: Arc::new(open(*number)?),
            capacity_bytes: config.device_bytes,
        })
    };
    let devices: Result<Vec<_>, MemoryError> = numbers.iter().map(served).collect();
    Server::start(devices?, &server_config(config))
}

/// The server's numbers.
pub(super) fn server_config(config: &GpuMirrorConfig) -> ServerConfig {
    ServerConfig {
        residency: residency::Config {
            arena: config.arena().unwrap_or_default(),
            ..residency::Config::default()
        },
        executor: ExecutorConfig::default(),
        limits: Limits::default(),
    }
}
