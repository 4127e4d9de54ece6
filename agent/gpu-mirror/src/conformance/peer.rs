//! The other process.

use tetris_store_layout::Digest;

use super::read;
use crate::memory::{DeviceMemory, Exported, MemoryError, Protection};

/// Hands an exported chunk of so many bytes to another process on the same device, lets it call [`act_as_peer`], and
/// brings back what that returned.
pub type Peer<'a> = dyn FnMut(Exported, u64) -> Result<PeerReport, String> + 'a;

/// What another process made of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerReport {
    /// BLAKE3 of its bytes.
    pub digest: Digest,
    /// Whether it could map the chunk read-only.
    pub mapped_read_only: bool,
    /// Whether it could map the chunk for writing.
    pub mapped_for_writing: bool,
}

/// Imports a chunk of `bytes`, reads it, and tries to map it for writing (but writes nothing).
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
