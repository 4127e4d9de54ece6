//! Source of bytes in memory.

/// Copies the bytes at an offset of the source into the buffer.
pub type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) + Sync);
