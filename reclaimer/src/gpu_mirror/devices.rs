//! The devices of this machine.

use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_device::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, MemoryError};
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::residency::{self, DeviceId};
use tetris_gpu_server::{
    DEFAULT_MEMORY_PATIENCE, ServedDevice, Server, ServerConfig, ServerError, TemplateConfig,
};

use super::calibrate::calibrated;
use super::links;
use super::{GpuMirrorConfig, Implementation, Serves};

/// Pinned buffers of a group's size for each device, made at the start: a first load goes through
/// them, and so do pages that cannot be registered.
const BUFFERS: usize = 16;

/// A server, and its number of missing devices.
pub struct Opened {
    /// The server.
    pub server: Arc<dyn Serves>,
    /// Number of configured devices that cannot be used.
    pub missing: usize,
}

/// A server over the devices that `config` names.
pub fn open(config: &GpuMirrorConfig) -> Result<Opened, ServerError> {
    match config.implementation {
        Implementation::Cuda => open_cuda(config),
        Implementation::Simulated => {
            tracing::warn!(
                bytes = config.device_bytes,
                "the GPU mirror is simulated: its devices are host memory, and no GPU is used (gpu_mirror.implementation)"
            );
            let numbers = if config.devices.is_empty() {
                vec![0]
            } else {
                config.devices.clone()
            };
            // All of them are joined, since all of them are the host's memory.
            serve(config, &numbers, |number| {
                Ok(HostDevice::numbered(number, 1, config.device_bytes))
            })
        }
    }
}

/// By descriptors, or by legacy handles if one of the devices cannot do the former.
fn open_cuda(config: &GpuMirrorConfig) -> Result<Opened, ServerError> {
    let count = device_count()?;
    let numbers = if config.devices.is_empty() {
        (0..count).collect()
    } else {
        config.devices.clone()
    };
    match serve(config, &numbers, VmmDevice::open) {
        Err(ServerError::Memory(MemoryError::Unsupported { what, .. })) => {
            tracing::warn!(
                missing = what,
                "device memory is shared by legacy IPC handles"
            );
            serve(config, &numbers, IpcDevice::open)
        }
        opened => opened,
    }
}

/// One device that cannot be used does not keep the others from it; none that can is an error.
pub(super) fn serve<D: DeviceMemory + 'static>(
    config: &GpuMirrorConfig,
    numbers: &[u32],
    open: impl Fn(u32) -> Result<D, MemoryError>,
) -> Result<Opened, ServerError> {
    let (mut devices, mut error) = (Vec::new(), None);
    for number in numbers {
        let device = open(*number).and_then(|device| device.info().map(|_| device));
        match device {
            Ok(device) => devices.push(served(config, *number, device)?),
            Err(unsupported @ MemoryError::Unsupported { .. }) => return Err(unsupported.into()),
            Err(failed) => {
                tracing::warn!(device = number, error = %failed, "the GPU mirror does without a device");
                error.get_or_insert(failed);
            }
        }
    }
    if devices.is_empty() {
        let (asked, found) = (0, 0);
        let none = MemoryError::NoSuchDevice { asked, found };
        return Err(error.unwrap_or(none).into());
    }
    let missing = numbers.len() - devices.len();
    let opened: Vec<_> = devices
        .iter()
        .map(|(served, _, rate)| (served.id, Arc::clone(&served.device), *rate))
        .collect();
    let rates = links::measured(config, &opened);
    let devices = devices.into_iter();
    let devices = devices.map(|(served, executor, _)| (served, executor));
    let server = Server::start_each(devices.collect(), &server_config(config))?;
    links::set(config, numbers, &opened, &rates, &server);
    let server = Arc::new(server);
    Ok(Opened { server, missing })
}

/// A device, the parameters of its copies, and the rate of its link from the host in bytes per
/// second, if it is known.
type Calibration<D> = (ServedDevice<D>, ExecutorConfig, Option<u64>);

fn served<D: DeviceMemory>(
    config: &GpuMirrorConfig,
    number: u32,
    device: D,
) -> Result<Calibration<D>, ServerError> {
    let calibrated = calibrated(&device, number, config.group_bytes, config.device_bytes);
    let group_bytes = calibrated.group_bytes;
    let executor =
        ExecutorConfig::try_new(config.streams, BUFFERS, group_bytes, config.pinned_bytes);
    let executor = executor.map_err(|_| ServerError::Limits {
        expected: "streams and groups within the bounds of the configuration",
    })?;
    let device = ServedDevice {
        id: DeviceId(number),
        device: Arc::new(device),
        capacity_bytes: config.device_bytes,
    };
    let rate = config.link_bytes_per_sec.or(calibrated.bytes_per_second);
    Ok((device, executor, rate))
}

/// The server's numbers.
fn server_config(config: &GpuMirrorConfig) -> ServerConfig {
    ServerConfig {
        residency: residency::Config {
            arena: config.arena().unwrap_or_default(),
            ..residency::Config::default()
        },
        executor: ExecutorConfig::default(),
        limits: config.limits(),
        keep_pinned: Duration::from_secs(config.pinned_secs),
        writable_registration: config.writable_registration,
        memory_patience: DEFAULT_MEMORY_PATIENCE,
        spare_bytes: config.spare_bytes,
        check_bytes_per_sec: config.check_bytes_per_sec,
        templates: TemplateConfig {
            budget_bytes: config.template_bytes,
            ttft: Duration::from_millis(config.template_ttft_ms),
        },
    }
}
