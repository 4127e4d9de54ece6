//! Checks of chunks shared with another process.

use tetris_store_layout::Digest;

use super::{Broken, Peer, chunk, fill, read, rule};
use tetris_gpu_device::{DeviceMemory, Mapped};

pub(super) fn check<D: DeviceMemory>(device: &D, peer: &mut Peer<'_>) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 3)?;
    let bytes = fill(device, &mapping, 20)?;
    let capabilities = device.capabilities();
    // Twice: the owner must be able to export a chunk again for the next client.
    for _ in 0..2 {
        let exported = device.export(&chunk)?;
        let report = peer(exported, mapping.bytes()).map_err(Broken::Peer)?;
        let same = report.digest == Digest::of(&bytes);
        rule(same, "another process sees the same bytes", "others")?;
        let read_only = report.mapped_read_only == capabilities.read_only_mappings;
        rule(
            read_only,
            "clients map read-only where the device supports it",
            report.mapped_read_only,
        )?;
        let writing = report.mapped_for_writing;
        let fine = !(writing && capabilities.read_only_enforced);
        rule(
            fine,
            "clients cannot write if the capabilities say so",
            writing,
        )?;
    }
    // Other processes that map, unmap or die must not affect the owner.
    rule(
        read(device, &mapping)? == bytes,
        "a client leaves the bytes as they are",
        "others",
    )?;
    let after = fill(device, &mapping, 21)?;
    rule(
        read(device, &mapping)? == after,
        "the owner writes after exporting",
        "other bytes",
    )
}
