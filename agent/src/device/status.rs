//! Location and status of the node's mirror.

use std::path::PathBuf;
use std::time::Duration;

use tetris_gpu_mirror::client::Client;
use tetris_gpu_mirror::memory::cuda::device_number;
use tetris_gpu_mirror::memory::{DeviceUuid, MemoryKind};
use tetris_gpu_mirror::protocol::{DeviceEntry, StatusReport};

use super::{DeviceError, Location};
use crate::Agent;
use crate::private_reason::no_store;

/// Environment variable with the path of the mirror's socket. The default is `gpu` in the store.
pub const SOCKET_ENV: &str = "TETRIS_GPU_SOCKET";

/// A device of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorDevice {
    /// Its name in this process; `None` if the process does not see it.
    pub location: Option<Location>,
    /// Its UUID as `nvidia-smi -L` prints it, without the prefix `GPU-`.
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// Length of its free memory at the moment, in bytes.
    pub free_bytes: u64,
    /// Limit of the mirror's memory, in bytes.
    pub capacity_bytes: u64,
}

/// Returns the path of the socket of the mirror of an agent's store.
///
/// # Errors
/// [`DeviceError::NoStore`] if there is no store: a mirror copies only from one.
pub fn socket(agent: &Agent) -> Result<PathBuf, DeviceError> {
    let Some(store) = agent.store() else {
        let reason = no_store(agent.unavailable_store());
        return Err(DeviceError::NoStore { reason });
    };
    // An empty name counts as unset, like the store's.
    let named = std::env::var_os(SOCKET_ENV).filter(|name| !name.is_empty());
    Ok(named.map_or_else(|| store.root().join("gpu"), PathBuf::from))
}

/// Lists the mirror's devices.
///
/// # Errors
/// [`DeviceError`] if there is no store, or if the mirror does not answer within `timeout`.
pub fn devices(agent: &Agent, timeout: Duration) -> Result<Vec<MirrorDevice>, DeviceError> {
    let (mut client, kind) = any(agent, timeout)?;
    let devices = client.devices()?;
    Ok(devices
        .into_iter()
        .map(|device| described(device, kind))
        .collect())
}

/// Returns the mirror's status, over all of its stores.
///
/// # Errors
/// [`DeviceError`] if there is no store, or if the mirror does not answer within `timeout`.
pub fn status(agent: &Agent, timeout: Duration) -> Result<StatusReport, DeviceError> {
    Ok(any(agent, timeout)?.0.status()?)
}

fn any(agent: &Agent, timeout: Duration) -> Result<(Client, MemoryKind), DeviceError> {
    let kinds = [
        MemoryKind::CudaDescriptors,
        MemoryKind::Host,
        MemoryKind::CudaHandles,
    ];
    Ok(Client::connect_any(&socket(agent)?, &kinds, timeout)?)
}

fn described(device: DeviceEntry, kind: MemoryKind) -> MirrorDevice {
    MirrorDevice {
        location: location(device.uuid, kind),
        uuid: device.uuid.to_string(),
        name: device.name,
        total_bytes: device.total_bytes,
        free_bytes: device.free_bytes,
        capacity_bytes: device.capacity_bytes,
    }
}

fn location(uuid: DeviceUuid, kind: MemoryKind) -> Option<Location> {
    if kind == MemoryKind::Host {
        return Some(Location::Simulated);
    }
    // A process without a driver sees no device.
    device_number(uuid).ok().flatten().map(Location::Cuda)
}
