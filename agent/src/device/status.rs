//! Location and status of the node's mirror.

use std::path::PathBuf;
use std::time::Duration;

use tetris_gpu_client::Client;
use tetris_gpu_device::cuda::{device_number, is_initialized};
use tetris_gpu_device::{DeviceUuid, MemoryKind};
use tetris_gpu_protocol::{DeviceEntry, StatusReport};

use super::{DeviceError, Location};
use crate::Agent;
use crate::private_reason::no_store;

/// Environment variable with the path of the mirror's socket. The default is `gpu` in the store.
pub const SOCKET_ENV: &str = "TETRIS_GPU_SOCKET";

/// A device of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorDevice {
    /// Its number at the mirror.
    pub number: u32,
    /// Its name in this process; `None` if the process does not see it, or if the driver was not
    /// asked: see [`Numbering`].
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

/// Ways to number the mirror's devices in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Initializes the driver (`cuInit`) if nothing has. A child that is forked later cannot use
    /// CUDA then.
    AskDriver,
    /// Asks the driver only if something in this process has initialized it already.
    IfInitialized,
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
pub fn devices(
    agent: &Agent,
    timeout: Duration,
    numbering: Numbering,
) -> Result<Vec<MirrorDevice>, DeviceError> {
    let (mut client, kind) = any(agent, timeout)?;
    let devices = client.devices()?;
    let asks = numbering == Numbering::AskDriver || is_initialized();
    Ok(devices
        .into_iter()
        .map(|device| described(device, kind, asks))
        .collect())
}

/// Returns the mirror's status, over all of its stores.
///
/// # Errors
/// [`DeviceError`] if there is no store, or if the mirror does not answer within `timeout`.
pub fn status(agent: &Agent, timeout: Duration) -> Result<StatusReport, DeviceError> {
    Ok(any(agent, timeout)?.0.status()?)
}

pub(super) fn any(agent: &Agent, timeout: Duration) -> Result<(Client, MemoryKind), DeviceError> {
    let kinds = [
        MemoryKind::CudaDescriptors,
        MemoryKind::Host,
        MemoryKind::CudaHandles,
    ];
    Ok(Client::connect_any(&socket(agent)?, &kinds, timeout)?)
}

fn described(device: DeviceEntry, kind: MemoryKind, asks: bool) -> MirrorDevice {
    MirrorDevice {
        number: device.number,
        location: location(device.uuid, kind, asks),
        uuid: device.uuid.to_string(),
        name: device.name,
        total_bytes: device.total_bytes,
        free_bytes: device.free_bytes,
        capacity_bytes: device.capacity_bytes,
    }
}

fn location(uuid: DeviceUuid, kind: MemoryKind, asks: bool) -> Option<Location> {
    if kind == MemoryKind::Host {
        return Some(Location::Simulated);
    }
    if !asks {
        return None;
    }
    // A process without a driver sees no device.
    device_number(uuid).ok().flatten().map(Location::Cuda)
}
