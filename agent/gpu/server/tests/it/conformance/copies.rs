//! Checks of copies, events and lifetimes.

use std::sync::{Arc, Weak};

use memmap2::MmapMut;

use super::{Broken, chunk, fill, pattern, read, refused, rule};
use tetris_gpu_device::{DeviceMemory, HostSlice, Mapped, MemoryError, Protection};

pub(super) fn check<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    places_and_order(device)?;
    sources_live_as_long_as_copies(device)?;
    pinned_and_registered(device)?;
    mappings_keep_memory(device)?;
    ranges_are_used_again(device)?;
    read_only_mappings_are_read_only(device)?;
    cleared_chunks_are_zero(device)
}

/// Clearing removes all bytes of a chunk, and copies after it arrive.
fn cleared_chunks_are_zero<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 2)?;
    fill(device, &mapping, 6)?;
    device.clear(&mapping)?;
    let cleared = read(device, &mapping)?;
    let is_zero = cleared.iter().all(|byte| *byte == 0);
    rule(is_zero, "a cleared chunk is zero", "other bytes")?;
    let expected = fill(device, &mapping, 7)?;
    let bytes = read(device, &mapping)?;
    rule(
        bytes == expected,
        "bytes arrive in a cleared chunk",
        "others",
    )?;
    // The stream that filled it has ended, and with it its share of the mapping.
    if let Ok(mapping) = Arc::try_unwrap(mapping) {
        let free = device.reclaim(chunk, mapping)?;
        rule(free, "memory that nobody else has is free at once", free)?;
    }
    Ok(())
}

/// Bytes arrive at their destination, later copies overwrite earlier ones, and events happen after
/// their copies.
fn places_and_order<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (_first_chunk, first) = chunk(device, 2)?;
    let (_second_chunk, second) = chunk(device, 1)?;
    let mut expected = fill(device, &first, 1)?;
    let other = fill(device, &second, 2)?;
    let mut stream = device.stream()?;
    overwrite(device, &mut stream, &first, &mut expected)?;
    let event = device.record(&mut stream)?;
    device.wait(&event)?;
    let done = device.is_done(&event)?;
    rule(done, "an event that was waited for has happened", done)?;
    let bytes = read(device, &first)?;
    rule(
        bytes == expected,
        "bytes arrive where they were sent",
        "others",
    )?;
    rule(
        read(device, &second)? == other,
        "copies touch nothing else",
        "other bytes",
    )?;
    device.synchronize(&mut stream)?;
    an_idle_stream_is_done(device)
}

/// Queues copies to unaligned offsets, and applies them to `expected`.
fn overwrite<D: DeviceMemory>(
    device: &D,
    stream: &mut D::Stream,
    to: &Arc<D::Mapping>,
    expected: &mut [u8],
) -> Result<(), MemoryError> {
    for (seed, offset, len) in [(3u64, 1u64, 7u64), (4, 4095, 70_001), (5, 65_536, 3)] {
        let bytes = pattern(seed, len);
        let at = offset as usize..(offset + len) as usize;
        if let Some(into) = expected.get_mut(at) {
            into.copy_from_slice(&bytes);
        }
        device.copy_in(stream, to, offset, HostSlice::whole(Arc::new(bytes)))?;
    }
    Ok(())
}

fn an_idle_stream_is_done<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let mut stream = device.stream()?;
    let nothing = device.record(&mut stream)?;
    device.wait(&nothing)?;
    let done = device.is_done(&nothing)?;
    rule(done, "an event on an idle stream happens", done)
}

/// The stream keeps the source of a copy until the copy is done, and drops it when it is settled.
fn sources_live_as_long_as_copies<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (_chunk, mapping) = chunk(device, 1)?;
    let bytes = pattern(6, mapping.bytes());
    let source = Arc::new(bytes.clone());
    let watch: Weak<Vec<u8>> = Arc::downgrade(&source);
    let mut stream = device.stream()?;
    device.copy_in(&mut stream, &mapping, 0, HostSlice::whole(source))?;
    let event = device.record(&mut stream)?;
    let kept = watch.strong_count();
    rule(
        kept == 1,
        "a stream keeps the sources of its copies",
        format!("{kept} owners"),
    )?;
    device.wait(&event)?;
    device.settle(&mut stream)?;
    let kept = watch.strong_count();
    rule(
        kept == 0,
        "a settled stream lets go of it",
        format!("{kept} owners"),
    )?;
    rule(
        read(device, &mapping)? == bytes,
        "the copy has been made",
        "other bytes",
    )
}

/// Pinned buffers and registered memory can be copied.
fn pinned_and_registered<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (_chunk, mapping) = chunk(device, 1)?;
    let mut buffer = device.pinned(mapping.bytes() as usize)?;
    let bytes = pattern(7, mapping.bytes());
    buffer.copy_from_slice(&bytes);
    let from = HostSlice::whole(Arc::new(buffer));
    let mut stream = device.stream()?;
    device.copy_in(&mut stream, &mapping, 0, from)?;
    device.synchronize(&mut stream)?;
    rule(
        read(device, &mapping)? == bytes,
        "pinned memory is copied",
        "other bytes",
    )?;
    registered(device, &mapping)
}

/// The device can register memory that is read-only, like the store's, if its capabilities say so;
/// it can copy such memory in any case.
fn registered<D: DeviceMemory>(device: &D, mapping: &Arc<D::Mapping>) -> Result<(), Broken> {
    let io = |source| MemoryError::io("map memory", source);
    let mut pages = MmapMut::map_anon(mapping.bytes() as usize).map_err(io)?;
    let bytes = pattern(11, mapping.bytes());
    pages.copy_from_slice(&bytes);
    let pages = pages.make_read_only().map_err(io)?;
    let from = HostSlice::whole(Arc::new(pages));
    let registration = device.register(from.clone());
    if device.capabilities().registers_read_only
        && let Err(error) = &registration
    {
        return rule(false, "memory that is read-only can be registered", error);
    }
    let mut stream = device.stream()?;
    device.copy_in(&mut stream, mapping, 0, from)?;
    device.synchronize(&mut stream)?;
    drop(registration);
    rule(
        read(device, mapping)? == bytes,
        "registered memory is copied",
        "other bytes",
    )
}

/// A released chunk stays until it is unmapped.
fn mappings_keep_memory<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 1)?;
    let bytes = fill(device, &mapping, 8)?;
    device.release(chunk)?;
    rule(
        read(device, &mapping)? == bytes,
        "a mapping keeps its memory",
        "other bytes",
    )
}

/// Unmapped memory can be mapped again, at the same address if the capabilities say so.
fn ranges_are_used_again<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 1)?;
    let bytes = fill(device, &mapping, 9)?;
    let address = mapping.address();
    let Ok(mapping) = Arc::try_unwrap(mapping) else {
        return rule(false, "an idle stream keeps no mapping", "one that is kept");
    };
    let range = device.unmap(mapping)?;
    let again = device.map(range, &chunk, Protection::ReadWrite)?;
    let same = again.address() == address || !device.capabilities().stable_addresses;
    rule(same, "memory comes back at its address", again.address())?;
    rule(
        read(device, &again)? == bytes,
        "unmapping loses nothing",
        "other bytes",
    )
}

fn read_only_mappings_are_read_only<D: DeviceMemory>(device: &D) -> Result<(), Broken> {
    let (chunk, mapping) = chunk(device, 1)?;
    let range = device.reserve(mapping.bytes())?;
    let read_only = device.map(range, &chunk, Protection::ReadOnly);
    if !device.capabilities().read_only_mappings {
        let unsupported = |error: &MemoryError| matches!(error, MemoryError::Unsupported { .. });
        return refused(
            read_only,
            unsupported,
            "a device without read-only mappings refuses them",
        );
    }
    let read_only = Arc::new(read_only?);
    let bytes = fill(device, &mapping, 10)?;
    rule(
        read(device, &read_only)? == bytes,
        "both mappings show the same",
        "other bytes",
    )?;
    let mut stream = device.stream()?;
    let from = HostSlice::whole(Arc::new(vec![1u8]));
    let copied = device.copy_in(&mut stream, &read_only, 0, from);
    let refusal = |error: &MemoryError| matches!(error, MemoryError::ReadOnly);
    refused(
        copied,
        refusal,
        "nothing is written through a read-only mapping",
    )
}
