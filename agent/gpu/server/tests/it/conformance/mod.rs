//! Requirements on every implementation of [`DeviceMemory`], as a check. It runs in this crate's
//! tests, and on machines with a driver in doubt.
//!
//! The checks of sharing need another process ([`Peer`]), which the caller provides: the process
//! that exports a legacy IPC handle cannot open it. The other process calls [`act_as_peer`].

mod across;
mod copies;
mod peer;
mod refusals;
mod sharing;

use std::fmt::Display;
use std::sync::Arc;

use thiserror::Error;

use tetris_gpu_device::{DeviceMemory, HostSlice, Mapped, MemoryError, Protection};

pub use across::check_pair;
pub use peer::{Peer, PeerReport, act_as_peer};

/// The reason the check failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Broken {
    /// The device violates a rule.
    #[error("expected that {rule}, found {found}")]
    Rule {
        /// The rule.
        rule: &'static str,
        /// The observed behavior.
        found: String,
    },
    /// An operation failed that must succeed.
    #[error("cannot check the rules: {0}")]
    Memory(#[from] MemoryError),
    /// The other process failed.
    #[error("cannot check the rules with another process: {0}")]
    Peer(String),
}

/// Checks all rules on `device`, with some 20 granules of its memory.
///
/// # Errors
///
/// [`Broken`] with the first violated rule.
pub fn check<D: DeviceMemory>(device: &D, peer: &mut Peer<'_>) -> Result<(), Broken> {
    describes_itself(device)?;
    refusals::check(device)?;
    copies::check(device)?;
    sharing::check(device, peer)
}

fn describes_itself<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let info = device.info()?;
    let fits = info.free_bytes <= info.total_bytes && info.total_bytes > 0;
    rule(
        fits,
        "free memory is at most all memory",
        format!("{info:?}"),
    )?;
    let granule = device.capabilities().granule_bytes;
    rule(
        granule.is_power_of_two(),
        "the granule is a power of two",
        granule,
    )?;
    let again = device.info()?;
    rule(
        again.uuid == info.uuid,
        "a device keeps its identity",
        again.uuid,
    )
}

/// Returns an error unless `fine` is true.
fn rule(fine: bool, rule: &'static str, found: impl Display) -> Result<(), Broken> {
    if fine {
        return Ok(());
    }
    let found = found.to_string();
    Err(Broken::Rule { rule, found })
}

/// Returns an error unless `result` is an error that satisfies `expected`.
fn refused<T>(
    result: Result<T, MemoryError>,
    expected: impl Fn(&MemoryError) -> bool,
    which: &'static str,
) -> Result<(), Broken> {
    match result {
        Err(error) => rule(expected(&error), which, error),
        Ok(_) => rule(false, which, "success"),
    }
}

/// Creates a chunk of `granules`, and maps it for writing.
fn chunk<D: DeviceMemory>(
    device: &D,
    granules: u64,
) -> Result<(D::Chunk, Arc<D::Mapping>), MemoryError> {
    let bytes = granules * device.capabilities().granule_bytes;
    let chunk = device.create(bytes)?;
    let range = device.reserve(bytes)?;
    let mapping = device.map(range, &chunk, Protection::ReadWrite)?;
    Ok((chunk, Arc::new(mapping)))
}

/// Creates `len` bytes that differ from those of another seed nearly everywhere.
fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Fills a mapping with a pattern and waits. Returns the pattern.
fn fill<D: DeviceMemory>(
    device: &D,
    to: &Arc<D::Mapping>,
    seed: u64,
) -> Result<Vec<u8>, MemoryError> {
    let bytes = pattern(seed, to.bytes());
    let mut stream = device.stream()?;
    device.copy_in(
        &mut stream,
        to,
        0,
        HostSlice::whole(Arc::new(bytes.clone())),
    )?;
    device.synchronize(&mut stream)?;
    Ok(bytes)
}

/// Reads all bytes of a mapping.
fn read<D: DeviceMemory>(device: &D, from: &D::Mapping) -> Result<Vec<u8>, MemoryError> {
    let mut bytes = vec![0; from.bytes() as usize];
    device.read_back(from, 0, &mut bytes)?;
    Ok(bytes)
}
