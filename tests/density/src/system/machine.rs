//! Description of the machine behind the figures.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::{system::memory, units};

/// The machine, and the settings that affect the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Logical processors this process may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory available at the run's start, in bytes.
    pub memory_available_bytes: u64,
    /// Transparent huge pages for anonymous memory: the chosen setting.
    pub thp_anonymous: String,
    /// Transparent huge pages for shared memory without a separate mount: the chosen setting.
    pub thp_shmem: String,
    /// Average number of runnable processes in the minute before the run: above 0.5 or so, another
    /// program was running and the times are noisy.
    pub load_average: f64,
    /// True if the run had root's rights, which the cgroup, KSM and mount parts need.
    pub root: bool,
}

impl Machine {
    /// Describes this machine.
    pub fn inspect() -> Result<Self> {
        Ok(Self {
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            memory_bytes: memory::total()?,
            memory_available_bytes: memory::available()?,
            thp_anonymous: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            thp_shmem: chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            load_average: load_average(),
            root: is_root(),
        })
    }

    /// Formats the description in one line.
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {} memory ({} available), Linux {}, huge pages: anonymous {}, shared memory {}",
            self.cpu,
            self.cores,
            units::bytes(self.memory_bytes),
            units::bytes(self.memory_available_bytes),
            self.kernel,
            self.thp_anonymous,
            self.thp_shmem,
        )
    }
}

/// Returns true if this process has root's rights.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Average number of runnable processes over the last minute.
pub fn load_average() -> f64 {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}

fn cpu_model() -> String {
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(": "));
    model.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The word in brackets of a kernel setting like `always [madvise] never`.
fn chosen(path: &str) -> String {
    bracketed(&read(path)).unwrap_or("not available").to_owned()
}

fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_chosen_setting() {
        assert_eq!(bracketed("always [madvise] never"), Some("madvise"));
        assert_eq!(bracketed(""), None);
    }
}
