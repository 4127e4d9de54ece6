//! Memory of a cgroup that the kernel cannot reclaim.

use std::path::Path;

use super::error::{CgroupError, read};

/// Memory charged to a cgroup, without the page cache of files, which the kernel can drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// Anonymous pages, in bytes.
    pub(crate) anonymous: u64,
    /// Pages of tmpfs and shared memory that the cgroup touched first, in bytes.
    pub(crate) shared_memory: u64,
    /// Kernel memory such as page tables, stacks and sockets, in bytes.
    pub(crate) kernel: u64,
}

impl MemoryUse {
    pub(crate) const fn total(&self) -> u64 {
        self.anonymous
            .saturating_add(self.shared_memory)
            .saturating_add(self.kernel)
    }

    pub(super) fn v1(dir: &Path) -> Result<Self, CgroupError> {
        let stat = read(&dir.join("memory.stat"))?;
        let kernel = read(&dir.join("memory.kmem.usage_in_bytes")).unwrap_or_default();
        Ok(Self::parse_v1(&stat, &kernel))
    }

    pub(super) fn v2(dir: &Path) -> Result<Self, CgroupError> {
        read(&dir.join("memory.stat")).map(|stat| Self::parse_v2(&stat))
    }

    /// Parses version 1: `total_` counts include children. Kernel memory is in a separate file,
    /// which newer kernels lack.
    fn parse_v1(stat: &str, kernel: &str) -> Self {
        let shared = value(stat, "total_shmem").or_else(|| value(stat, "shmem"));
        let anonymous = value(stat, "total_rss").or_else(|| value(stat, "rss"));
        Self {
            anonymous: anonymous.unwrap_or(0),
            shared_memory: shared.unwrap_or(0),
            kernel: kernel.trim().parse().unwrap_or(0),
        }
    }

    /// Parses version 2: `kernel` is the sum since Linux 5.18. Reclaimable slabs are caches and do
    /// not count.
    fn parse_v2(stat: &str) -> Self {
        let of = |key| value(stat, key).unwrap_or(0);
        let parts = [
            "kernel_stack",
            "pagetables",
            "percpu",
            "sock",
            "vmalloc",
            "slab",
        ];
        let parts = || parts.into_iter().map(of).fold(0, u64::saturating_add);
        let kernel = value(stat, "kernel").unwrap_or_else(parts);
        Self {
            anonymous: of("anon"),
            shared_memory: of("shmem"),
            kernel: kernel.saturating_sub(of("slab_reclaimable")),
        }
    }
}

/// Returns the value of a line `key value`.
pub(super) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "cache 900\nrss 5\nshmem 1\ntotal_cache 1800\ntotal_rss 700\ntotal_rss_huge 2\ntotal_shmem 30\n";
    const V2: &str = "anon 700\nfile 1800\nkernel 90\nkernel_stack 10\npagetables 20\npercpu 1\nsock 2\nvmalloc 3\n\
        shmem 30\nslab_reclaimable 40\nslab_unreclaimable 14\nslab 54\n";

    #[test]
    fn the_page_cache_of_files_does_not_count() {
        let use_v1 = MemoryUse::parse_v1(V1, "50\n");
        assert_eq!(
            (use_v1.anonymous, use_v1.shared_memory, use_v1.kernel),
            (700, 30, 50)
        );
        assert_eq!(use_v1.total(), 780);
        assert_eq!(MemoryUse::parse_v1("rss 5\nshmem 1\n", "").total(), 6);
        let used = MemoryUse::parse_v2(V2);
        assert_eq!(
            (used.anonymous, used.shared_memory, used.kernel),
            (700, 30, 50)
        );
        let older = V2.replace("kernel 90\n", "");
        assert_eq!(MemoryUse::parse_v2(&older).kernel, 50);
    }

    #[test]
    fn malformed_statistics_are_zero() {
        for text in [
            "",
            "anon",
            "anon x\nrss -1\n",
            "anon 99999999999999999999\n",
            "\u{0}",
        ] {
            assert_eq!(MemoryUse::parse_v2(text).total(), 0);
            assert_eq!(MemoryUse::parse_v1(text, text).total(), 0);
        }
    }
}
