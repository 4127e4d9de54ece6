//! Argument checks shared by all implementations.

use super::{MemoryError, Protection};

/// Checks that a chunk's size is a positive multiple of the granule, both in bytes.
pub(crate) fn check_chunk_size(bytes: u64, granule_bytes: u64) -> Result<(), MemoryError> {
    if bytes > 0 && bytes.is_multiple_of(granule_bytes) {
        Ok(())
    } else {
        Err(MemoryError::Size {
            bytes,
            granule_bytes,
        })
    }
}

/// Checks that `len_bytes` at `offset_bytes` lie inside a mapping of `limit_bytes`.
///
/// # Errors
///
/// [`MemoryError::Bounds`] if they do not.
pub fn check_inside(
    offset_bytes: u64,
    len_bytes: u64,
    limit_bytes: u64,
) -> Result<(), MemoryError> {
    match offset_bytes.checked_add(len_bytes) {
        Some(end) if end <= limit_bytes => Ok(()),
        _ => Err(MemoryError::Bounds {
            offset_bytes,
            len_bytes,
            limit_bytes,
        }),
    }
}

/// Checks a copy into a mapping: the mapping is writable, and the destination inside it.
pub(crate) fn check_copy(
    protection: Protection,
    offset_bytes: u64,
    len: usize,
    limit_bytes: u64,
) -> Result<(), MemoryError> {
    if protection == Protection::ReadOnly {
        return Err(MemoryError::ReadOnly);
    }
    check_inside(offset_bytes, len as u64, limit_bytes)
}

/// Checks that a part of a mapping of `limit_bytes` lies inside it. Returns its length.
pub(crate) fn check_across(
    part: &std::ops::Range<u64>,
    limit_bytes: u64,
) -> Result<usize, MemoryError> {
    let len_bytes = part.end.saturating_sub(part.start);
    check_inside(part.start, len_bytes, limit_bytes)?;
    Ok(len_bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_overflow_are_outside() {
        assert!(check_inside(u64::MAX, 2, u64::MAX).is_err());
        assert!(check_inside(4, 4, 7).is_err());
        assert!(check_inside(4, 4, 8).is_ok());
    }

    #[test]
    fn sizes_are_positive_multiples() {
        assert!(check_chunk_size(0, 4).is_err());
        assert!(check_chunk_size(6, 4).is_err());
        assert!(check_chunk_size(8, 4).is_ok());
    }
}
