//! Kernel samepage merging: its settings, restored on drop, and its progress.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::system::machine;

const ROOT: &str = "/sys/kernel/mm/ksm";
/// The fastest merging with one processor to itself. The order matters: the number of pages can be
/// set only without an advisor.
const FASTEST: [(&str, &str); 5] = [
    ("advisor_mode", "none"),
    ("smart_scan", "0"),
    ("pages_to_scan", "100000"),
    ("sleep_millisecs", "1"),
    ("run", "1"),
];
/// Interval between two samples of the counters.
const SAMPLE: Duration = Duration::from_millis(100);
/// Growth of the shared pages over [`QUIET`] samples below which merging is over, relative.
const GROWTH: f64 = 0.005;
/// Number of samples without growth that end the wait.
const QUIET: usize = 5;
/// Time limit of the wait for another run's merging.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// The right to change the settings, which one process of the machine holds at a time.
///
/// Without it, each of two runs would take the other's settings for the original ones.
pub struct Turn {
    /// Holds the lock until it is closed.
    _lock: File,
}

/// Merging at full speed; the drop restores the original settings.
pub struct Merging<'turn> {
    _turn: &'turn Turn,
    found: Vec<(&'static str, String)>,
    daemon: Option<u32>,
}

/// Results of merging one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergeReport {
    /// Number of instances in the group.
    pub instances: usize,
    /// Time until the number of merged pages stopped growing, in seconds.
    pub seconds: f64,
    /// Processor time of the merging thread in that time, in seconds; 0 if its record is not
    /// readable.
    pub cpu_seconds: f64,
    /// Number of bytes that merging saves, by the kernel's count (`pages_sharing`).
    pub saved_bytes: u64,
    /// True if the number of merged pages stopped growing within the limit.
    pub settled: bool,
}

/// The reason merging cannot be measured here; `None` if it can.
pub fn unavailable() -> Option<String> {
    if !PathBuf::from(ROOT).join("run").exists() {
        return Some("this kernel has no samepage merging (/sys/kernel/mm/ksm)".into());
    }
    (!machine::is_root()).then(|| "switching samepage merging on needs root".into())
}

impl Turn {
    /// Waits for the turn, at most ten minutes.
    pub fn take() -> Result<Self> {
        let path = setting("run");
        let lock = File::open(&path).map_err(Error::io("open", &path))?;
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) if interrupt::raised() => {
                    return Err(Error::Interrupted);
                }
                Err(TryLockError::WouldBlock) if begin.elapsed() > LONGEST_WAIT => {
                    let busy = io::Error::other("another run has been merging for too long");
                    return Err(Error::io("lock", &path)(busy));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(SAMPLE),
            }
        }
    }
}

impl<'turn> Merging<'turn> {
    /// Records the settings and enables merging.
    pub fn start(turn: &'turn Turn) -> Result<Self> {
        let mut merging = Self {
            _turn: turn,
            found: Vec::new(),
            daemon: daemon(),
        };
        for (name, value) in FASTEST {
            let path = setting(name);
            // Older kernels have fewer settings.
            let Ok(found) = fs::read_to_string(&path) else {
                continue;
            };
            merging.found.push((name, current(&found)));
            fs::write(&path, value).map_err(Error::io("set", &path))?;
        }
        Ok(merging)
    }

    /// Waits at most `limit` until the merged pages of a group of `instances` stop growing.
    pub fn settle(&self, instances: usize, limit: Duration) -> Result<MergeReport> {
        let begin = Instant::now();
        let cpu_begin = self.cpu_seconds();
        let scans_begin = counter("full_scans");
        let mut report = MergeReport {
            instances,
            ..MergeReport::default()
        };
        let mut history = vec![counter("pages_sharing")];
        while begin.elapsed() < limit {
            if interrupt::raised() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(SAMPLE);
            let now = counter("pages_sharing");
            if has_grown(history.last().copied().unwrap_or(0), now) {
                report.seconds = begin.elapsed().as_secs_f64();
                report.cpu_seconds = self.cpu_seconds() - cpu_begin;
            }
            history.push(now);
            let quiet = history
                .iter()
                .rev()
                .nth(QUIET)
                .is_some_and(|&before| !has_grown(before, now));
            // The kernel compares a page only after two scans have seen it unchanged.
            if quiet && counter("full_scans") >= scans_begin + 3 {
                report.settled = true;
                break;
            }
        }
        report.saved_bytes = counter("pages_sharing") * page_size();
        Ok(report)
    }

    fn cpu_seconds(&self) -> f64 {
        self.daemon
            .and_then(cpu_ticks)
            .map_or(0.0, |ticks| ticks as f64 / ticks_per_second())
    }
}

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        for (name, value) in self.found.drain(..).rev() {
            // No action is left for a setting that the kernel refuses to restore.
            let _ = fs::write(setting(name), value);
        }
    }
}

fn setting(name: &str) -> PathBuf {
    PathBuf::from(ROOT).join(name)
}

/// The value to restore: the word in brackets where the kernel lists the choices.
fn current(text: &str) -> String {
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text.trim(), |(word, _)| word).to_owned()
}

fn has_grown(before: u64, now: u64) -> bool {
    now as f64 > before as f64 * (1.0 + GROWTH)
}

fn counter(name: &str) -> u64 {
    fs::read_to_string(setting(name))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn page_size() -> u64 {
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .map_or(4096, |size| size as u64)
}

fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .map_or(100.0, |ticks| ticks as f64)
}

/// Process id of the kernel's merging thread.
fn daemon() -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ksmd")
        })
}

/// User and system time of a process in clock ticks.
fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks, so the fields are counted after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_choice_is_written_back() {
        assert_eq!(current("[none] scan-time\n"), "none");
        assert_eq!(current("100\n"), "100");
    }

    #[test]
    fn own_ticks_are_readable() {
        assert!(cpu_ticks(std::process::id()).is_some());
    }

    #[test]
    fn small_changes_are_not_growth() {
        assert!(has_grown(0, 1));
        assert!(has_grown(1000, 1010));
        assert!(!has_grown(1000, 1004));
        assert!(!has_grown(1000, 900));
    }
}
