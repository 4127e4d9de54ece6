//! The devices of this machine.

use std::sync::Arc;

use tetris_gpu_mirror::copy::ExecutorConfig;
use tetris_gpu_mirror::memory::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_mirror::memory::host::HostDevice;
use tetris_gpu_mirror::memory::{DeviceMemory, MemoryError};
use tetris_gpu_mirror::residency::{self, DeviceId};
use tetris_gpu_mirror::server::{Limits, ServedDevice, Server, ServerConfig, ServerError};

use super::{GpuMirrorConfig, Implementation, Serves};

/// A server over the devices that `config` names.
pub fn open(config: &GpuMirrorConfig) -> Result<Box<dyn Serves>, ServerError> {
    match config.implementation {
        Implementation::Cuda => open_cuda(config),
        Implementation::StandIn => {
            tracing::warn!(
                bytes = config.device_bytes,
                "the GPU mirror is a stand-in: its device is host memory, and no GPU is used (gpu_mirror.implementation)"
            );
            let open = |_| Ok(HostDevice::new(config.device_bytes));
            Ok(Box::new(serve(config, &[0], open)?))
        }
    }
}

/// By descriptors, or by legacy handles if one of the devices cannot do the former.
fn open_cuda(config: &GpuMirrorConfig) -> Result<Box<dyn Serves>, ServerError> {
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
