//! Processes by /proc: groups, mappings, and memory without a cgroup.

use std::collections::HashSet;
use std::fs;

/// Major and minor number of a device, and an inode on it.
pub(crate) type FileKey = ((u64, u64), u64);

/// Returns the processes of a process group, without zombies.
pub(crate) fn of_group(group: i32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process: &u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat"));
            stat.is_ok_and(|stat| group_of(&stat) == Some(group))
        })
        .collect()
}

/// Returns the process group in /proc/PID/stat, `7 (a name) S 1 7 ...`, or `None` for a zombie.
fn group_of(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let (state, _parent, group) = (fields.next()?, fields.next()?, fields.next()?);
    (state != "Z").then(|| group.parse().ok())?
}

/// Returns the files that any of the processes maps.
pub(crate) fn mapped_files(processes: &[u32]) -> HashSet<FileKey> {
    let pids = processes.iter();
    let maps = pids.filter_map(|process| fs::read_to_string(format!("/proc/{process}/maps")).ok());
    maps.flat_map(|maps| maps.lines().filter_map(mapped_file).collect::<Vec<_>>())
        .collect()
}

/// Parses `7f00-7f10 r--s 00000000 00:2a 12345   /path` (proc(5)); device numbers are hexadecimal.
/// The key is device and inode, not the path: another mount namespace has another path of the
/// store.
fn mapped_file(line: &str) -> Option<FileKey> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode: u64 = fields.next()?.parse().ok()?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    (inode != 0).then_some(((number(major)?, number(minor)?), inode))
}

/// Returns the private memory of the processes, in bytes: anonymous memory, with pages shared among
/// forks by proportion, and page tables.
pub(crate) fn own_bytes(processes: &[u32]) -> u64 {
    let read = |process, file| fs::read_to_string(format!("/proc/{process}/{file}"));
    let per_process = processes.iter().map(|process| {
        let rollup = read(process, "smaps_rollup").unwrap_or_default();
        let status = read(process, "status").unwrap_or_default();
        kib(&rollup, "Pss_Anon:").saturating_add(kib(&status, "VmPTE:"))
    });
    per_process
        .fold(0, u64::saturating_add)
        .saturating_mul(1_024)
}

/// Counters of a process's resident memory at one moment, in KiB. They may lag by some pages for each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    anonymous: u64,
    /// Pages of files and of shared memory.
    mapped: u64,
    /// Largest sum of both so far, by the kernel.
    peak: u64,
    page_tables: u64,
}

impl Counters {
    /// Reads the counters of a process; all are 0 if it has gone.
    pub(crate) fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status"));
        Self::read(&status.unwrap_or_default())
    }

    fn read(status: &str) -> Self {
        Self {
            anonymous: kib(status, "RssAnon:"),
            mapped: kib(status, "RssFile:").saturating_add(kib(status, "RssShmem:")),
            peak: kib(status, "VmHWM:"),
            page_tables: kib(status, "VmPTE:"),
        }
    }

    /// Returns the most anonymous memory with page tables since the counters `before`, in bytes. A peak between the two is
    /// the kernel's, less what was mapped at both ends.
    pub(crate) fn most_since(self, before: Self) -> u64 {
        let between = if self.peak > before.peak {
            self.peak.saturating_sub(self.mapped.min(before.mapped))
        } else {
            0
        };
        let most = self.anonymous.max(between);
        most.saturating_add(self.page_tables).saturating_mul(1_024)
    }
}

fn kib(text: &str, key: &str) -> u64 {
    let value = |line: &str| {
        line.strip_prefix(key)?
            .split_ascii_whitespace()
            .next()?
            .parse()
            .ok()
    };
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_stat_whatever_the_name_is() {
        assert_eq!(group_of("7 (a) Z) S 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of("7 (sh) Z 1 42 42 0 -1"), None);
        assert_eq!(group_of("7 (sh"), None);
    }

    #[test]
    fn mapped_files_are_read_from_maps() {
        let line =
            "7f5c000-7f5d000 r--s 00000000 00:2a 12345                      /s/objects-v1/a b";
        assert_eq!(mapped_file(line), Some(((0, 0x2a), 12_345)));
        for line in [
            "7f5c000-7f5d000 rw-p 00000000 00:00 0  [heap]",
            "",
            "a b c d e",
            "a b c 1:z 5",
        ] {
            assert_eq!(mapped_file(line), None, "{line}");
        }
    }

    #[test]
    fn own_memory_is_anonymous_memory_and_page_tables() {
        let rollup = "Rss: 900 kB\nPss: 800 kB\nPss_Anon:            300 kB\nPss_Shmem: 400 kB\n";
        assert_eq!(kib(rollup, "Pss_Anon:"), 300);
        assert_eq!(kib("VmPTE:\t    88 kB\n", "VmPTE:"), 88);
        assert_eq!(kib("VmPTE:", "VmPTE:"), 0);
        let bytes = own_bytes(&[std::process::id()]);
        assert!(bytes > 10_000, "{bytes}");
        let bytes = Counters::of(std::process::id()).most_since(Counters::default());
        assert!(bytes > 10_000, "{bytes}");
    }

    #[test]
    fn a_peak_between_two_looks_is_the_kernels_less_what_was_mapped() {
        let status = |anonymous, file, shared, peak| {
            Counters::read(&format!(
                "VmHWM: {peak} kB\nRssAnon: {anonymous} kB\nRssFile: {file} kB\nRssShmem: {shared} kB\nVmPTE: 1 kB\n"
            ))
        };
        let before = status(100, 40, 0, 140);
        // Weights were unpacked, and then mapped from the store.
        let after = status(60, 50, 90, 540);
        assert_eq!(after.most_since(before), (500 + 1) * 1_024);
        assert_eq!(after.most_since(after), (60 + 1) * 1_024);
        assert_eq!(before.most_since(Counters::default()), (140 + 1) * 1_024);
    }
}
