//! Comparison of a recognized file with the objects that will stand for it (INV-11, LAYOUT.md 8).

use std::ops::{Deref, Range};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use tetris_store_layout::{Manifest, ManifestKind, ManifestTensor};

use crate::error::LoadFailure;
use crate::source::Source;

/// Number of blocks of a file that are compared, unless it has fewer.
const BLOCKS: u64 = 32;
const BLOCK_LEN: u64 = 4096;
/// Bytes of a header that are in memory at a time.
const PIECE: usize = 64 << 10;

/// Returns true if `source` has the manifest's header, and at some random places the bytes of its
/// objects. `object` gives an object's bytes by its index in the manifest, or `None` where it is not
/// in the store: then its tensors are not compared.
///
/// # Errors
/// When the file cannot be read.
pub fn agrees<Bytes: Deref<Target = [u8]>>(
    source: &Source,
    manifest: &Manifest,
    object: impl Fn(u32) -> Option<Bytes>,
) -> Result<bool, LoadFailure> {
    if source.identity().size != manifest.source_size || !has_header(source, manifest)? {
        return Ok(false);
    }
    let mut random: SmallRng = rand::make_rng();
    let mut buffer = [0; BLOCK_LEN as usize];
    let mut to_read = Vec::new();
    for range in blocks(manifest.data_start, manifest.source_size, &mut random) {
        let block = buffer.get_mut(..len(&range)).unwrap_or_default();
        if !source.read_cached(block, range.start) {
            to_read.push(range);
        } else if !is_in_objects(block, range.start, manifest, &object) {
            return Ok(false);
        }
    }
    // All at once: one after the other, each would take a seek.
    for range in &to_read {
        source.read_ahead(range.clone());
    }
    for range in to_read {
        let block = buffer.get_mut(..len(&range)).unwrap_or_default();
        source.read_at(block, range.start)?;
        if !is_in_objects(block, range.start, manifest, &object) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

/// The parts of a file to compare: all of a short one, else a block at a random place in each of equal parts. Places are multiples of the
/// block's length, so that a block is one page.
fn blocks(data_start: u64, size: u64, random: &mut impl Rng) -> impl Iterator<Item = Range<u64>> {
    let first = data_start / BLOCK_LEN;
    let count = size.div_ceil(BLOCK_LEN).saturating_sub(first);
    let parts = count.min(BLOCKS);
    (0..parts).map(move |part| {
        // 128 bits: a product of a file's length.
        let begin = |part: u64| (u128::from(part) * u128::from(count) / u128::from(parts)) as u64;
        let block = first + random.random_range(begin(part)..begin(part + 1));
        let start = block.saturating_mul(BLOCK_LEN);
        start.max(data_start)..start.saturating_add(BLOCK_LEN).min(size)
    })
}

fn has_header(source: &Source, manifest: &Manifest) -> Result<bool, LoadFailure> {
    let mut left = manifest.data_start;
    let mut buffer = vec![0; left.min(PIECE as u64) as usize];
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while left > 0 {
        let len = left.min(PIECE as u64);
        let piece = buffer.get_mut(..len as usize).unwrap_or_default();
        source.read_at(piece, at)?;
        hasher.update(piece);
        (at, left) = (at + len, left - len);
    }
    Ok(*hasher.finalize().as_bytes() == manifest.header_digest.0)
}

/// Returns true if `block`, which begins at `start` in the file, has the objects' bytes of there.
fn is_in_objects<Bytes: Deref<Target = [u8]>>(
    block: &[u8],
    start: u64,
    manifest: &Manifest,
    object: &impl Fn(u32) -> Option<Bytes>,
) -> bool {
    if manifest.kind == ManifestKind::File {
        return object(0).is_none_or(|bytes| part(&bytes, start, block.len()) == Some(block));
    }
    // Relative to the tensors' data, as their places are.
    let Some(start) = start.checked_sub(manifest.data_start) else {
        return false;
    };
    let end = start + block.len() as u64;
    let first = manifest
        .tensors
        .partition_point(|tensor| tensor.source_offset + tensor.len <= start);
    let rest = manifest.tensors.get(first..).unwrap_or_default();
    rest.iter()
        .take_while(|tensor| tensor.source_offset < end)
        .all(|tensor| is_in_object(block, start, tensor, object))
}

fn is_in_object<Bytes: Deref<Target = [u8]>>(
    block: &[u8],
    start: u64,
    tensor: &ManifestTensor,
    object: &impl Fn(u32) -> Option<Bytes>,
) -> bool {
    let Some(place) = tensor.place else {
        return tensor.len == 0;
    };
    let Some(bytes) = object(place.object) else {
        return true;
    };
    let begin = tensor.source_offset.max(start);
    let end = (tensor.source_offset + tensor.len).min(start + block.len() as u64);
    let len = end.saturating_sub(begin) as usize;
    let expected = part(&bytes, place.offset + (begin - tensor.source_offset), len);
    expected.is_some() && part(block, begin - start, len) == expected
}

fn part(bytes: &[u8], begin: u64, len: usize) -> Option<&[u8]> {
    let begin = usize::try_from(begin).ok()?;
    bytes.get(begin..begin.checked_add(len)?)
}

#[cfg(test)]
mod tests;
