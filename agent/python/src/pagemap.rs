//! State of this process's pages by the kernel (proc_pid_pagemap(5)).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries read at a time.
const ENTRIES: usize = 4096;

/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page is in swap.
const SWAPPED: u64 = 1 << 62;
/// The page belongs to a file, or is shared anonymous memory; a private copy does not.
const FILE_OR_SHARED: u64 = 1 << 61;

/// Returns true if none of the pages that hold these bytes is a private copy. `false` also when that cannot be
/// learned.
///
/// Of a private mapping: a page that is not there has not been written, for then it would be there or in swap.
pub(crate) fn is_unmodified(address: usize, len: usize) -> bool {
    if len == 0 {
        return true;
    }
    let Ok(pagemap) = File::open("/proc/self/pagemap") else {
        return false;
    };
    let page_size = rustix::param::page_size();
    let first = address / page_size;
    let Some(end) = address.checked_add(len).map(|end| end.div_ceil(page_size)) else {
        return false;
    };
    let mut buffer = vec![0; ENTRY * ENTRIES.min(end - first)];
    let mut page = first;
    while page < end {
        let wanted = ENTRY * ENTRIES.min(end - page);
        let Some(entries) = buffer.get_mut(..wanted) else {
            return false;
        };
        if pagemap
            .read_exact_at(entries, (page * ENTRY) as u64)
            .is_err()
        {
            return false;
        }
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let private = |entry: &[u8; ENTRY]| is_private(native(*entry));
        if entries.iter().any(private) {
            return false;
        }
        page += ENTRIES;
    }
    true
}

#[expect(
    clippy::host_endian_bytes,
    reason = "the kernel writes its own integers"
)]
fn native(entry: [u8; ENTRY]) -> u64 {
    u64::from_ne_bytes(entry)
}

fn is_private(entry: u64) -> bool {
    let in_memory = entry & PRESENT != 0 && entry & FILE_OR_SHARED == 0;
    // Of a file's page in swap, which a tmpfs can have, the bit marks a file's page.
    let in_swap = entry & SWAPPED != 0 && entry & FILE_OR_SHARED == 0;
    in_memory || in_swap
}
