//! Connections to the mirror, and its devices as this process opens them.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{Client, Waiting, Wanted};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice, device_number};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, DeviceUuid, MemoryError, MemoryKind};

use super::held::Held;
use super::{DeviceError, Location, Target};

/// Connects to a mirror of the requested kind. Returns its kind of memory.
pub(super) fn connect(
    socket: &Path,
    target: Target,
    timeout: Duration,
) -> Result<(Client, MemoryKind), DeviceError> {
    use MemoryKind::{CudaDescriptors, CudaHandles, Host};
    let kinds = match target {
        Target::Simulated => [Host, CudaDescriptors, CudaHandles],
        Target::AnyCuda | Target::Cuda(_) => [CudaDescriptors, Host, CudaHandles],
    };
    let (client, kind) = Client::connect_any(socket, &kinds, timeout)?;
    let found = match (kind, target) {
        (Host, Target::Simulated) => return Ok((client, kind)),
        (Host, _) => "host memory (\"simulated\")",
        (_, Target::Simulated) => "GPUs (\"cuda\")",
        _ => return Ok((client, kind)),
    };
    Err(DeviceError::OtherDevice {
        socket: socket.to_owned(),
        asked: target,
        found,
    })
}

/// Acquires objects from a mirror of this kind of memory.
pub(super) fn acquire(
    client: Client,
    kind: MemoryKind,
    target: Target,
    wanted: &Wanted,
    waiting: &mut dyn FnMut(Waiting),
) -> Result<(Box<dyn Held>, Location), DeviceError> {
    match kind {
        MemoryKind::Host => {
            // The mirror owns the memory: this process creates none.
            let device = Arc::new(HostDevice::new(0));
            let acquired = client.acquire(device, wanted, waiting)?;
            Ok((Box::new(acquired), Location::Simulated))
        }
        MemoryKind::CudaDescriptors => on_cuda(client, target, VmmDevice::open, wanted, waiting),
        MemoryKind::CudaHandles => on_cuda(client, target, IpcDevice::open, wanted, waiting),
    }
}

fn on_cuda<D: DeviceMemory + Debug + 'static>(
    client: Client,
    target: Target,
    open: fn(u32) -> Result<D, MemoryError>,
    wanted: &Wanted,
    waiting: &mut dyn FnMut(Waiting),
) -> Result<(Box<dyn Held>, Location), DeviceError> {
    if let Target::Cuda(number) = target {
        let device = Arc::new(open(number)?);
        let acquired = client.acquire(device, wanted, waiting)?;
        return Ok((Box::new(acquired), Location::Cuda(number)));
    }
    let mut number = 0;
    let mut chosen = |uuid: DeviceUuid| {
        number = seen(uuid)?;
        open(number).map(Arc::new)
    };
    let acquired = client.acquire_anywhere(&mut chosen, wanted, waiting)?;
    Ok((Box::new(acquired), Location::Cuda(number)))
}

/// Number of the device that the mirror has chosen, in this process.
fn seen(uuid: DeviceUuid) -> Result<u32, MemoryError> {
    device_number(uuid)?.ok_or(MemoryError::Unsupported {
        what: "the device chosen by the mirror, which this process does not see,",
        next: "name a visible one, such as \"cuda:0\"",
    })
}
