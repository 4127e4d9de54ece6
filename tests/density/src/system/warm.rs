//! Memory that the host backs before a timed start needs it.

use std::hint::black_box;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Distance of writes in bytes: the smallest page.
const PAGE: usize = 4096;

/// Touches this many bytes of fresh memory and frees them.
///
/// On a virtual machine, memory that was unused for a while is expensive: the host must back it,
/// which takes several times as long as the guest's own page fault. That time would count for the
/// start that happens to get such memory, so the next start finds memory that is already backed.
pub fn back(bytes: u64) -> Result<()> {
    let mut memory = MmapMut::map_anon(bytes.max(1) as usize)
        .map_err(Error::io("allocate memory from", "the system"))?;
    for page in memory.iter_mut().step_by(PAGE) {
        *page = 1;
    }
    black_box(&memory);
    Ok(())
}
