//! Memory that is backed before a timed start needs it.

use std::hint::black_box;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Distance between two writes, in bytes: the smallest page.
const PAGE: usize = 4096;

/// Touches this many bytes of fresh memory and gives them back.
///
/// A virtual machine pays for memory that it has not used for a while: the host must back it, which
/// takes several times as long as the guest's own page fault. A start that happens to get such memory
/// would be blamed for it, so the next start finds memory that is backed.
pub fn back(bytes: u64) -> Result<()> {
    let mut memory = MmapMut::map_anon(bytes.max(1) as usize)
        .map_err(Error::io("allocate memory from", "the system"))?;
    for page in memory.iter_mut().step_by(PAGE) {
        *page = 1;
    }
    black_box(&memory);
    Ok(())
}
