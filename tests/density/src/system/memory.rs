//! Memory of processes and of the machine, from `/proc`.

use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Memory of a process, or of a group of them, in bytes.
///
/// The proportional set size (PSS) counts each page once, divided among the processes that map it.
/// So the sum over a group is the physical memory that it maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Proportional set size.
    pub pss: u64,
    /// Anonymous part of the PSS: heap, stacks, copies.
    pub pss_anon: u64,
    /// File part of the PSS: program, libraries, mapped model files.
    pub pss_file: u64,
    /// Tmpfs part of the PSS: the tensor store.
    pub pss_shmem: u64,
    /// Page tables, which the PSS does not include.
    pub page_tables: u64,
    /// Length mapped by 2 MiB pages. Unlike the PSS, it counts a page for each process that maps
    /// it.
    pub large_pages: u64,
}

impl AddAssign for ProcessMemory {
    fn add_assign(&mut self, other: Self) {
        self.pss += other.pss;
        self.pss_anon += other.pss_anon;
        self.pss_file += other.pss_file;
        self.pss_shmem += other.pss_shmem;
        self.page_tables += other.page_tables;
        self.large_pages += other.large_pages;
    }
}

impl ProcessMemory {
    /// Reads the values of a live process.
    pub fn of(pid: u32) -> Result<Self> {
        let rollup = read(format!("/proc/{pid}/smaps_rollup"))?;
        let status = read(format!("/proc/{pid}/status"))?;
        Ok(Self {
            pss: field(&rollup, "Pss:"),
            pss_anon: field(&rollup, "Pss_Anon:"),
            pss_file: field(&rollup, "Pss_File:"),
            pss_shmem: field(&rollup, "Pss_Shmem:"),
            page_tables: field(&status, "VmPTE:"),
            large_pages: ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"]
                .into_iter()
                .map(|name| field(&rollup, name))
                .sum(),
        })
    }

    /// Sums the values over a group.
    pub fn of_all(pids: impl IntoIterator<Item = u32>) -> Result<Self> {
        let mut sum = Self::default();
        for pid in pids {
            sum += Self::of(pid)?;
        }
        Ok(sum)
    }
}

/// The kernel's estimate of the memory available without swapping, in bytes.
pub fn available() -> Result<u64> {
    Ok(field(&read("/proc/meminfo")?, "MemAvailable:"))
}

/// Memory of the machine, in bytes.
pub fn total() -> Result<u64> {
    Ok(field(&read("/proc/meminfo")?, "MemTotal:"))
}

fn read(path: impl Into<PathBuf>) -> Result<String> {
    let path = path.into();
    fs::read_to_string(&path).map_err(Error::io("read", &path))
}

/// Sum of the allocated blocks of all files in a directory tree, in bytes.
pub fn tree_blocks(directory: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let entry = entry.map_err(Error::io("list", directory))?;
        let data = entry
            .metadata()
            .map_err(Error::io("examine", entry.path()))?;
        sum += data.blocks() * 512;
        if data.is_dir() {
            sum += tree_blocks(&entry.path())?;
        }
    }
    Ok(sum)
}

/// Value of a `Name:   123 kB` line in bytes; 0 if it is missing, as on some kernels.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_matched_whole() {
        let text = "Pss_Anon:   4 kB\nPss:      12 kB\n";
        assert_eq!(field(text, "Pss:"), 12 * 1024);
        assert_eq!(field(text, "Pss_Anon:"), 4 * 1024);
        assert_eq!(field(text, "Pss_File:"), 0);
    }

    #[test]
    fn own_process_has_memory() {
        let memory = ProcessMemory::of(std::process::id()).unwrap();
        assert!(memory.pss > 0 && memory.page_tables > 0, "{memory:?}");
        assert!(memory.pss_anon + memory.pss_file + memory.pss_shmem <= memory.pss + 4096);
    }
}
