//! Checks of copies from one device to another.

use std::sync::{Arc, Weak};

use super::{Broken, chunk, fill, read, refused, rule};
use tetris_gpu_device::{DeviceMemory, Mapped, MemoryError};

/// Checks copies from `source` to `device`, with some ten granules of each. Returns true if a link
/// joins them; without one the copies are refused.
///
/// # Errors
///
/// [`Broken`] with the first violated rule.
pub fn check_pair<D: DeviceMemory>(device: &D, source: &D) -> Result<bool, Broken> {
    let (_chunk, to) = chunk(device, 2)?;
    let (source_chunk, from) = chunk(source, 2)?;
    let mut expected = fill(device, &to, 30)?;
    let bytes = fill(source, &from, 31)?;
    let mut stream = device.stream()?;
    if !device.is_linked(source)? {
        let part = 0..from.bytes();
        let copied = device.copy_across(&mut stream, &to, 0, source, &from, part);
        let unsupported = |error: &MemoryError| matches!(error, MemoryError::Unsupported { .. });
        refused(copied, unsupported, "devices without a link refuse copies")?;
        return Ok(false);
    }
    for (offset, start, len) in [
        (0u64, 1u64, 4097u64),
        (70_001, 0, 3),
        (1 << 20, 4096, 1 << 20),
    ] {
        let part = start..start + len;
        device.copy_across(&mut stream, &to, offset, source, &from, part)?;
        let into = expected.get_mut(offset as usize..(offset + len) as usize);
        let part = bytes.get(start as usize..(start + len) as usize);
        if let (Some(into), Some(part)) = (into, part) {
            into.copy_from_slice(part);
        }
    }
    let event = device.record(&mut stream)?;
    device.wait(&event)?;
    let there = read(device, &to)?;
    rule(
        there == expected,
        "bytes arrive from another device",
        "others",
    )?;
    let here = read(source, &from)?;
    rule(here == bytes, "a copy leaves its source as it is", "others")?;
    device.synchronize(&mut stream)?;
    places(device, source, &to, &from)?;
    // A released source stays until the copy is done.
    source.release(source_chunk)?;
    keeps(device, source, &to, from, &bytes)?;
    // The source is its device's own after the copy, to write to as before.
    let (_chunk, again) = chunk(source, 1)?;
    let written = fill(source, &again, 32)?;
    rule(
        read(source, &again)? == written,
        "devices write to separate memory",
        "others",
    )?;
    Ok(true)
}

/// Copies beyond either mapping are refused.
fn places<D: DeviceMemory>(
    device: &D,
    source: &D,
    to: &Arc<D::Mapping>,
    from: &Arc<D::Mapping>,
) -> Result<(), Broken> {
    let bounds = |error: &MemoryError| matches!(error, MemoryError::Bounds { .. });
    let mut stream = device.stream()?;
    for (offset, part) in [
        (0, 0..from.bytes() + 1),
        (0, u64::MAX - 1..u64::MAX),
        (to.bytes(), 0..1),
        (u64::MAX, 0..1),
    ] {
        let copied = device.copy_across(&mut stream, to, offset, source, from, part);
        refused(copied, bounds, "copies beyond a mapping are refused")?;
    }
    Ok(())
}

/// The stream keeps the source of a copy until it is settled.
fn keeps<D: DeviceMemory>(
    device: &D,
    source: &D,
    to: &Arc<D::Mapping>,
    from: Arc<D::Mapping>,
    bytes: &[u8],
) -> Result<(), Broken> {
    let watch: Weak<D::Mapping> = Arc::downgrade(&from);
    let mut stream = device.stream()?;
    let part = 0..from.bytes();
    device.copy_across(&mut stream, to, 0, source, &from, part)?;
    drop(from);
    let event = device.record(&mut stream)?;
    let kept = watch.strong_count();
    rule(
        kept == 1,
        "a stream keeps the memory of another device",
        kept,
    )?;
    device.wait(&event)?;
    device.settle(&mut stream)?;
    let kept = watch.strong_count();
    rule(kept == 0, "a settled stream lets go of it", kept)?;
    rule(
        read(device, to)? == bytes,
        "the copy has been made",
        "other bytes",
    )
}
