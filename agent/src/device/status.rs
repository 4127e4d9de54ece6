//! Which mirror there is, and what it says of itself.

use std::path::PathBuf;
use std::time::Duration;

use tetris_gpu_mirror::client::Client;
use tetris_gpu_mirror::memory::cuda::device_number;
use tetris_gpu_mirror::memory::{DeviceUuid, MemoryKind};
use tetris_gpu_mirror::protocol::{DeviceEntry, StatusReport};

use super::{DeviceError, Location};
use crate::Agent;
use crate::error::NO_STORE;

/// Names the mirror's socket; without it that is `gpu` in the store.
pub const SOCKET_ENV: &str = "TETRIS_GPU_SOCKET";

/// A device of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorDevice {
    /// What this process calls it; `None` if it does not see it.
    pub location: Option<Location>,
    /// Its identity as `nvidia-smi -L` prints it, without the prefix `GPU-`.
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// All of its memory, in bytes.
    pub total_bytes: u64,
    /// What nobody has taken at the moment, in bytes.
    pub free_bytes: u64,
    /// What the mirror may take, in bytes.
    pub capacity_bytes: u64,
}

/// Where the mirror of an agent's store listens.
///
/// # Errors
/// When there is no store: a mirror has nothing else to copy from.
pub fn socket(agent: &Agent) -> Result<PathBuf, DeviceError> {
    let Some(store) = agent.store() else {
        let reason = agent.unavailable().unwrap_or(NO_STORE).to_owned();
        return Err(DeviceError::NoStore { reason });
    };
    // An empty name counts as none, as for the store's.
    let named = std::env::var_os(SOCKET_ENV).filter(|name| !name.is_empty());
    Ok(named.map_or_else(|| store.root().join("gpu"), PathBuf::from))
}

/// The mirror's devices.
pub fn devices(agent: &Agent, timeout: Duration) -> Result<Vec<MirrorDevice>, DeviceError> {
    let (mut client, kind) = any(agent, timeout)?;
    let devices = client.devices()?;
    Ok(devices
        .into_iter()
        .map(|device| described(device, kind))
        .collect())
}

/// What the mirror is doing, for all of its stores.
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
        return Some(Location::StandIn);
    }
    // A process without a driver sees none.
    device_number(uuid).ok().flatten().map(Location::Cuda)
}
