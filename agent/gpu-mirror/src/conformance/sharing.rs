//! Chunks in other processes.

use tetris_store_layout::Digest;

use super::{Broken, Peer, chunk, fill, read, rule};
use crate::memory::{DeviceMemory, Mapped};

pub(super) fn check<D: DeviceMemory>(device: &D, peer: &mut Peer<'_>) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 3)?;
    let bytes = fill(device, &mapping, 20)?;
    let capabilities = device.capabilities();
    // Twice: what was exported once can be exported again for the next client.
    for _ in 0..2 {
        let exported = device.export(&chunk)?;
        let report = peer(exported, mapping.bytes()).map_err(Broken::Peer)?;
        let same = report.digest == Digest::of(&bytes);
        rule(same, "another process sees the same bytes", "others")?;
        let read_only = report.mapped_read_only == capabilities.read_only_mappings;
        rule(
            read_only,
            "clients map read-only where there is such a thing",
            report.mapped_read_only,
        )?;
        let writing = report.mapped_for_writing;
        let fine = !(writing && capabilities.read_only_enforced);
        rule(fine, "clients cannot write where that is promised", writing)?;
    }
    // What other processes map and unmap, or die with, is none of the owner's business.
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
