//! Description of the machine.

use std::fs;
use std::path::Path;

use rustix::system::uname;

use crate::report::Machine;

/// Describes the machine, as far as the kernel reports it.
pub(crate) fn machine() -> Machine {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = processors
        .lines()
        .find(|line| line.starts_with("model name"));
    let name = name
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim());
    Machine {
        processor: name.unwrap_or(std::env::consts::ARCH).to_owned(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: meminfo("MemTotal").unwrap_or(0),
        kernel: uname().release().to_string_lossy().into_owned(),
    }
}

/// Value of a line of `/proc/meminfo`, in bytes.
pub(crate) fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
