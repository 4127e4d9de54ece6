//! State of this process in `/proc/self/status`.

use std::path::PathBuf;

use crate::SandboxError;

/// The word for no capabilities.
pub(crate) const NONE: &str = "none";
const STATUS: &str = "/proc/self/status";

/// The text of `/proc/self/status` (proc_pid_status(5)).
#[derive(Debug)]
pub struct Proc(String);

impl Proc {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Fails if `/proc` is not mounted.
    pub fn of_self() -> Result<Self, SandboxError> {
        let read = std::fs::read_to_string(STATUS);
        read.map(Self).map_err(|source| SandboxError::Proc {
            path: PathBuf::from(STATUS),
            source,
        })
    }

    /// Value of a field, by its name without the colon.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.0.lines().filter_map(|line| line.split_once(':'));
        fields
            .filter(|(found, _)| *found == name)
            .map(|(_, value)| value.trim())
            .next()
    }

    /// Number of threads of this process.
    pub fn threads(&self) -> u64 {
        // A kernel without the field is none of ours: better no start than a thread without rules.
        let threads = self.field("Threads").and_then(|count| count.parse().ok());
        threads.unwrap_or(u64::MAX)
    }

    /// Permitted and effective capabilities, as a hexadecimal mask, or `none`.
    pub(crate) fn capabilities(&self) -> String {
        let mask = |name| {
            let field = self.field(name)?;
            u64::from_str_radix(field, 16).ok()
        };
        match (mask("CapPrm"), mask("CapEff")) {
            (Some(0), Some(0)) => NONE.to_owned(),
            (Some(permitted), Some(effective)) => format!("{:#x}", permitted | effective),
            _ => "unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(text: &str) -> Proc {
        Proc(text.to_owned())
    }

    #[test]
    fn capabilities_are_those_that_are_permitted_or_effective() {
        let none = proc("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
        assert_eq!(none.capabilities(), "none");
        let some = proc("CapPrm:\t0000000000000400\nCapEff:\t0000000000000001\n");
        assert_eq!(some.capabilities(), "0x401");
        assert_eq!(proc("").capabilities(), "unknown");
    }

    #[test]
    fn an_unknown_number_of_threads_counts_as_many() {
        assert_eq!(proc("Threads:\t3\n").threads(), 3);
        assert_eq!(proc("Threads:\tmany\n").threads(), u64::MAX);
        // A test has its own thread.
        assert!(Proc::of_self().unwrap().threads() > 1);
    }
}
