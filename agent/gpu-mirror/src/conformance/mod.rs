//! What every implementation of [`DeviceMemory`] has to do, as a check that runs on any of them: in this crate's tests, and on a
//! machine whose driver is in doubt.
//!
//! Sharing is checked with another process, which the caller provides ([`Peer`]): legacy IPC handles cannot be opened where they were
//! made. The other process calls [`act_as_peer`].

mod copies;
mod peer;
mod refusals;
mod sharing;

use std::fmt::Display;
use std::sync::Arc;

use thiserror::Error;

use crate::memory::{DeviceMemory, HostSlice, Mapped, MemoryError, Protection};

pub use peer::{Peer, PeerReport, act_as_peer};

/// An implementation breaks a rule.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Broken {
    /// It did something else than the rule says.
    #[error("expected that {rule}, found {found}")]
    Rule {
        /// The rule.
        rule: &'static str,
        /// What happened.
        found: String,
    },
    /// It failed where it should not.
    #[error("cannot check the rules: {0}")]
    Memory(#[from] MemoryError),
    /// The other process failed.
    #[error("cannot check the rules with another process: {0}")]
    Peer(String),
}

/// Checks all rules on `device`. Takes some 20 granules of its memory.
pub fn check<D: DeviceMemory>(device: &D, peer: &mut Peer<'_>) -> Result<(), Broken> {
    describes_itself(device)?;
    refusals::check(device)?;
    copies::check(device)?;
    sharing::check(device, peer)
}

fn describes_itself<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let info = device.info()?;
    let fits = info.free_bytes <= info.total_bytes && info.total_bytes > 0;
    rule(fits, "no more is free than there is", format!("{info:?}"))?;
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

/// `fine`, or an error.
fn rule(fine: bool, rule: &'static str, found: impl Display) -> Result<(), Broken> {
    if fine {
        return Ok(());
    }
    let found = found.to_string();
    Err(Broken::Rule { rule, found })
}

/// That `result` is an error for which `expected` holds.
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

/// A chunk of `granules`, and its mapping for writing.
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

/// `len` bytes that differ from those of another seed nearly everywhere.
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

/// Fills a mapping with a pattern and waits.
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
    device.synchronise(&mut stream)?;
    Ok(bytes)
}

/// All bytes of a mapping.
fn read<D: DeviceMemory>(device: &D, from: &D::Mapping) -> Result<Vec<u8>, MemoryError> {
    let mut bytes = vec![0; from.bytes() as usize];
    device.read_back(from, 0, &mut bytes)?;
    Ok(bytes)
}
