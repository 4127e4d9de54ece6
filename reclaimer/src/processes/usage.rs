//! This process as its own report has it: use of the machine, and limits by the kernel.

use tetris_sandbox::{Proc, SandboxStatus};

use super::sandbox;
use crate::own_usage::{cpu_time, resident_bytes};
use crate::report::process_report::{SandboxReport, Usage};

impl Usage {
    /// The use of the machine by this process. Unreadable values are 0.
    pub fn of_this_process() -> Self {
        let cpu_ms = cpu_time().and_then(|time| u64::try_from(time.as_millis()).ok());
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            cpu_ms: cpu_ms.unwrap_or_default(),
            resident_bytes: resident_bytes().unwrap_or_default(),
            // Without the descriptor of the listing itself.
            open_files: files.saturating_sub(1) as u64,
            threads: Proc::of_self().map_or(0, |status| status.threads()),
        }
    }
}

impl SandboxReport {
    /// The sandbox that this process entered, and the rights that `/proc/self` shows.
    pub fn of_this_process() -> Self {
        let status = Proc::of_self().ok();
        let effective = status.as_ref().and_then(|status| status.field("CapEff"));
        let entered = sandbox::entered();
        let because = |reason: fn(&SandboxStatus) -> &Option<String>| match entered {
            Some(entered) => reason(entered).clone(),
            None => Some("this process enters no sandbox".to_owned()),
        };
        Self {
            seccomp: entered.is_some_and(|entered| entered.seccomp),
            seccomp_because: because(|entered| &entered.seccomp_because),
            landlock: entered.and_then(|entered| entered.landlock),
            landlock_because: because(|entered| &entered.landlock_because),
            capabilities: effective.unwrap_or_default().to_owned(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_files_and_threads() {
        let usage = Usage::of_this_process();
        assert!(usage.resident_bytes > 1 << 20, "{usage:?}");
        assert!(usage.open_files >= 3 && usage.threads >= 1, "{usage:?}");
    }

    #[test]
    fn this_process_has_the_capabilities_and_the_user_that_the_kernel_says() {
        let sandbox = SandboxReport::of_this_process();
        assert_eq!(sandbox.capabilities.len(), 16, "{sandbox:?}");
        assert_eq!(sandbox.uid, rustix::process::geteuid().as_raw());
    }
}
