//! The other process of the sharing checks.

use tetris_store_layout::Digest;

use super::read;
use tetris_gpu_device::{DeviceMemory, Exported, MemoryError, Protection};

/// Hands an exported chunk and its length in bytes to another process on the same device, which
/// calls [`act_as_peer`], and returns that call's report.
pub type Peer<'a> = dyn FnMut(Exported, u64) -> Result<PeerReport, String> + 'a;

/// Report of the other process about a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerReport {
    /// BLAKE3 of the chunk's bytes.
    pub digest: Digest,
    /// True if the process could map the chunk read-only.
    pub mapped_read_only: bool,
    /// True if the process could map the chunk for writing.
    pub mapped_for_writing: bool,
}

/// Imports a chunk of `bytes`, reads it, and tries to map it for writing, but writes nothing.
pub fn act_as_peer<D: DeviceMemory>(
    device: &D,
    exported: Exported,
    bytes: u64,
) -> Result<PeerReport, MemoryError> {
    let chunk = device.import(exported, bytes)?;
    let protection = device.capabilities().client_protection();
    let mapping = device.map(device.reserve(bytes)?, &chunk, protection)?;
    let digest = Digest::of(&read(device, &mapping)?);
    let writable = device.map(device.reserve(bytes)?, &chunk, Protection::ReadWrite);
    Ok(PeerReport {
        digest,
        mapped_read_only: protection == Protection::ReadOnly,
        mapped_for_writing: writable.is_ok(),
    })
}
