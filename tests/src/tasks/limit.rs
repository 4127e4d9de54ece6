//! Coming close to a limit of the kernel.

use memmap2::{Mmap, MmapMut};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::task::Limit;

/// A resource that is exhausted while this value lives.
#[derive(Debug, Default)]
pub(super) struct Limited {
    used: Vec<Used>,
    restore: Vec<(Resource, u64)>,
}

#[derive(Debug)]
enum Used {
    ReadOnly(#[expect(dead_code, reason = "held for its mapping")] Mmap),
    Writable(#[expect(dead_code, reason = "held for its mapping")] MmapMut),
}

/// Free heap that a process keeps when it is at its limit, as a server has that has run for a while.
/// With none at all the first allocation would end any Rust program.
const FREE_HEAP: usize = 24 << 20;

/// Sets `limits`.
pub(super) fn set(limits: &[Limit]) -> anyhow::Result<Limited> {
    let mut limited = Limited::default();
    if !limits.is_empty() {
        // The allocator returns the first block to the kernel and, having learned that such blocks
        // come and go, keeps the second: mallopt(3), "dynamic mmap threshold".
        drop(std::hint::black_box(vec![1u8; FREE_HEAP + 4096]));
        drop(std::hint::black_box(vec![1u8; FREE_HEAP]));
    }
    for limit in limits {
        match *limit {
            Limit::Descriptors(left) => {
                let open = std::fs::read_dir("/proc/self/fd")?.count() as u64 - 1;
                limited.lower(Resource::RLIMIT_NOFILE, open + left)?;
            }
            Limit::AddressSpace(left) => {
                let statm = std::fs::read_to_string("/proc/self/statm")?;
                let pages: u64 = statm.split(' ').next().unwrap_or_default().parse()?;
                limited.lower(Resource::RLIMIT_AS, pages * 4096 + left)?;
            }
            Limit::Mappings(left) => limited.use_up_mappings(left)?,
        }
    }
    Ok(limited)
}

impl Limited {
    fn lower(&mut self, resource: Resource, soft: u64) -> anyhow::Result<()> {
        let (before, hard) = getrlimit(resource)?;
        setrlimit(resource, soft.min(hard), hard)?;
        self.restore.push((resource, before));
        Ok(())
    }

    /// Maps single pages until only `left` more mappings can be made. Neighbors of equal protection
    /// would be merged into one, so every other page is read-only.
    fn use_up_mappings(&mut self, left: usize) -> anyhow::Result<()> {
        let most: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count")?
            .trim()
            .parse()?;
        self.used.reserve(most);
        loop {
            let Ok(page) = MmapMut::map_anon(4096) else {
                break;
            };
            if self.used.len().is_multiple_of(2) {
                self.used.push(Used::Writable(page));
            } else if let Ok(page) = page.make_read_only() {
                self.used.push(Used::ReadOnly(page));
            } else {
                break;
            }
        }
        // Each page taken from the end is one mapping.
        let keep = self.used.len().saturating_sub(left);
        self.used.truncate(keep);
        Ok(())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for (resource, soft) in self.restore.drain(..) {
            if let Ok((_, hard)) = getrlimit(resource) {
                let _ = setrlimit(resource, soft, hard);
            }
        }
    }
}
