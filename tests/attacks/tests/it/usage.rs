//! Memory, descriptors and threads of processes, and content of a file system.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use tetris_store_layout::{Store, TensorId};

/// Use of resources at a moment.
#[derive(Debug, Clone)]
pub struct Usage {
    pub processes: BTreeMap<&'static str, ProcessUsage>,
    /// Bytes in use on the stores' tmpfs.
    pub bytes: u64,
    /// Inodes in use there.
    pub inodes: u64,
}

/// Use of a process.
#[derive(Debug, Clone, Default)]
pub struct ProcessUsage {
    /// Its own resident memory: without the stores' pages, which it maps while it writes them.
    pub memory_kib: u64,
    pub open_files: u64,
    pub threads: u64,
}

impl Usage {
    pub fn of(processes: &[(&'static str, u32)], file_system: &Path) -> Self {
        let usage = statvfs(file_system).unwrap();
        let of = |(name, id): &(&'static str, u32)| (*name, ProcessUsage::of(*id));
        Self {
            processes: processes.iter().map(of).collect(),
            bytes: (usage.blocks() - usage.blocks_free()) * usage.fragment_size(),
            inodes: usage.files() - usage.files_free(),
        }
    }
}

impl ProcessUsage {
    fn of(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        Self {
            memory_kib: number(&status, "RssAnon:"),
            open_files: fs::read_dir(format!("/proc/{id}/fd")).unwrap().count() as u64,
            threads: number(&status, "Threads:"),
        }
    }
}

/// Number that a process's status has after `name`.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.map_or(0, |value| value.parse().unwrap())
}

/// Watch of a process's own resident memory.
pub struct MemoryWatch {
    is_over: Arc<AtomicBool>,
    /// Returns the most that was seen, in KiB.
    thread: JoinHandle<u64>,
}

impl MemoryWatch {
    /// Looks at the process every 5 ms, until it ends or the watch does.
    pub fn start(id: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !ends.load(Ordering::Relaxed) {
                let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else {
                    break;
                };
                most = most.max(number(&status, "RssAnon:"));
                std::thread::sleep(Duration::from_millis(5));
            }
            most
        });
        Self { is_over, thread }
    }

    /// The most bytes that were seen.
    pub fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap() << 10
    }
}

/// Bytes that a process has read by system calls, whatever they read from.
pub fn bytes_read(id: u32) -> Option<u64> {
    let counts = fs::read_to_string(format!("/proc/{id}/io")).ok()?;
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read?.parse().ok()
}

/// Bytes and number of the files of a folder.
pub fn files(folder: &Path) -> (u64, u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // A file can be gone by now.
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold((0, 0), |(bytes, files), size| (bytes + size, files + 1))
}

/// Objects of a store whose bytes are not those of their name.
pub fn damaged(store: &Path) -> Vec<PathBuf> {
    let store = Store::open(store).unwrap();
    let entries = fs::read_dir(store.objects_dir()).unwrap().flatten();
    let is_wrong = |path: &PathBuf| {
        // An object can be freed meanwhile.
        let Ok(bytes) = fs::read(path) else {
            return false;
        };
        let id = TensorId::of(&bytes).to_string();
        !path.file_name().unwrap().to_string_lossy().starts_with(&id)
    };
    entries.map(|entry| entry.path()).filter(is_wrong).collect()
}
