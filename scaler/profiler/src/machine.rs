//! The machine of the measurements.

use std::fs;

use serde::{Deserialize, Serialize};

/// Properties of a machine that measurements depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name and architecture of the processor.
    pub processor: String,
    /// Number of online CPUs.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Reads this machine's properties from /proc. Unreadable values are unknown, not an error:
    /// they only inform people and tell machines apart.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::from_proc(&read("/proc/cpuinfo"), &read("/proc/meminfo"))
    }

    fn from_proc(cpuinfo: &str, meminfo: &str) -> Self {
        let value = |line: &str, key| {
            line.strip_prefix(key)?
                .split_once(':')
                .map(|(_, v)| v.trim().to_owned())
        };
        let name = cpuinfo.lines().find_map(|line| value(line, "model name"));
        let cpus = cpuinfo
            .lines()
            .filter(|line| value(line, "processor").is_some())
            .count();
        let total = meminfo.lines().find_map(|line| value(line, "MemTotal"));
        let kib =
            total.and_then(|total| total.split_ascii_whitespace().next()?.parse::<u64>().ok());
        let architecture = std::env::consts::ARCH;
        Self {
            processor: format!(
                "{} ({architecture})",
                name.as_deref().unwrap_or("unknown processor")
            ),
            cpus: cpus.max(1) as u64,
            memory_bytes: kib.unwrap_or(0).saturating_mul(1_024),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_proc() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 2GHz\n";
        let machine = Machine::from_proc(cpuinfo, "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        assert!(machine.processor.starts_with("Some CPU @ 2GHz ("));
        assert_eq!((machine.cpus, machine.memory_bytes), (2, 1 << 20));
        assert_eq!(Machine::from_proc("", "").cpus, 1);
    }
}
