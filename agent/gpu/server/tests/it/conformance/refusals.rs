//! Checks of operations that the device must refuse.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Broken, chunk, refused};
use tetris_gpu_device::{DeviceMemory, Exported, HANDLE_BYTES, HostSlice, MemoryError, Protection};

pub(super) fn check<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    sizes(device)?;
    places(device)?;
    imports(device)
}

fn sizes<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let granule = device.capabilities().granule_bytes;
    let size = |error: &MemoryError| matches!(error, MemoryError::Size { .. });
    for bytes in [0, 1, granule + 1] {
        refused(
            device.create(bytes),
            size,
            "a chunk is a positive multiple of the granule",
        )?;
        refused(
            device.reserve(bytes),
            size,
            "a range is a positive multiple of the granule",
        )?;
    }
    let total = device.info()?.total_bytes.next_multiple_of(granule) + granule;
    let full = |error: &MemoryError| matches!(error, MemoryError::OutOfMemory { .. });
    refused(
        device.create(total),
        full,
        "a chunk larger than the device cannot be created",
    )?;
    let (one, _mapping) = chunk(device, 1)?;
    let range = device.reserve(2 * granule)?;
    let other = |error: &MemoryError| matches!(error, MemoryError::RangeSize { .. });
    let mapped = device.map(range, &one, Protection::ReadWrite);
    refused(mapped, other, "a range is as long as its chunk")
}

fn places<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let granule = device.capabilities().granule_bytes;
    let (_chunk, mapping) = chunk(device, 1)?;
    let mut stream = device.stream()?;
    let bounds = |error: &MemoryError| matches!(error, MemoryError::Bounds { .. });
    for offset in [granule - 1, granule, u64::MAX - 1, u64::MAX] {
        let two = HostSlice::whole(Arc::new(vec![1u8, 2]));
        let copied = device.copy_in(&mut stream, &mapping, offset, two);
        refused(copied, bounds, "a copy stays inside the mapping")?;
        let read = device.read_back(&mapping, offset, &mut [0; 2]);
        refused(read, bounds, "reading stays inside the mapping")?;
    }
    device.synchronize(&mut stream)?;
    Ok(())
}

fn imports<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let granule = device.capabilities().granule_bytes;
    let import = |error: &MemoryError| matches!(error, MemoryError::Import { .. });
    let io = |source| MemoryError::io("open /dev/null", source);
    let file = File::open("/dev/null").map_err(io)?;
    for rubbish in [
        Exported::Descriptor(OwnedFd::from(file)),
        Exported::Handle([0; HANDLE_BYTES]),
        Exported::Handle([0xff; HANDLE_BYTES]),
    ] {
        let imported = device.import(rubbish, granule);
        refused(
            imported,
            import,
            "a chunk that no process exported cannot be imported",
        )?;
    }
    Ok(())
}
