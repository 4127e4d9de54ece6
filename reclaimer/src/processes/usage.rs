//! This process as its own report has it: use of the machine, and limits by the kernel.

use tetris_sandbox::SandboxStatus;

use super::sandbox;
use crate::report::process_report::{SandboxReport, Usage};

/// Milliseconds per tick in `/proc`: USER_HZ is 100 in the ABI of every architecture that the store
/// runs on.
const MS_PER_TICK: u64 = 10;

impl Usage {
    /// The use of the machine by this process, from `/proc/self`. Unreadable values are 0.
    pub fn of_this_process() -> Self {
        let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            cpu_ms: cpu_ticks(&stat).unwrap_or_default() * MS_PER_TICK,
            resident_bytes: number(&status, "VmRSS:").unwrap_or_default() * 1024,
            // Without the descriptor of the listing itself.
            open_files: files.saturating_sub(1) as u64,
            threads: number(&status, "Threads:").unwrap_or_default(),
        }
    }
}

impl SandboxReport {
    /// The sandbox that this process entered, and the rights that `/proc/self` shows.
    pub fn of_this_process() -> Self {
        let status = read("/proc/self/status");
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
            capabilities: field(&status, "CapEff:").unwrap_or_default().to_owned(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The first word of the line that begins with `key`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()
}

fn number(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.parse().ok()
}

/// Time in user and in kernel mode: fields 14 and 15 of proc_pid_stat(5). The command before them
/// may hold blanks and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_command) = stat.rsplit_once(") ")?;
    let mut times = after_command.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_blanks_and_parentheses_shifts_no_field() {
        let fields: Vec<String> = (4..=30).map(|n| n.to_string()).collect();
        let stat = format!("7 (a) b (c) S {}", fields.join(" "));
        assert_eq!(cpu_ticks(&stat), Some(14 + 15));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }

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
