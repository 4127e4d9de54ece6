//! Source of bytes in memory.

/// Copies the bytes at an offset of the source into the buffer.
pub type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) + Sync);

/// The source of `bytes`. Beyond their end the buffer stays as it is.
pub(crate) fn of_bytes(bytes: &[u8]) -> impl Fn(u64, &mut [u8]) + Sync {
    |at, buffer| {
        let begin = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = bytes.get(begin..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
    }
}
