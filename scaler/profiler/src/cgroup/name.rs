//! Names of cgroups, by which the next profiler finds and removes those of a killed one.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::detect::Hierarchy;
use super::remove;

const PREFIX: &str = "tetris-profile";

/// Returns a unique name: PID namespace, process, start time, count.
pub(super) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (namespace, process) = (namespace(), std::process::id());
    let started = started(process).unwrap_or(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}-{namespace}-{process}-{started}-{count}")
}

/// Removes cgroups of dead profilers of this PID namespace, and returns their number.
pub(crate) fn sweep(hierarchy: &Hierarchy) -> usize {
    let (mut removed, own) = (0, namespace());
    for parent in hierarchy.parents() {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        for entry in entries {
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| is_left(name, own, started))
            {
                remove(&parent.join(entry.file_name()));
                removed += 1;
            }
        }
    }
    removed
}

/// Returns true if `name` belongs to a dead profiler of the PID namespace `own`. `started` returns
/// the start time of a process.
fn is_left(name: &str, own: u64, started: impl Fn(u32) -> Option<u64>) -> bool {
    let parsed = || {
        let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let namespace: u64 = fields.next()?.parse().ok()?;
        let process: u32 = fields.next()?.parse().ok()?;
        let start: u64 = fields.next()?.parse().ok()?;
        let _count: u64 = fields.next()?.parse().ok()?;
        fields
            .next()
            .is_none()
            .then_some((namespace, process, start))
    };
    parsed().is_some_and(|(namespace, process, start)| {
        namespace == own && started(process) != Some(start)
    })
}

/// Returns the inode of this process's PID namespace: `pid:[4026531836]`.
fn namespace() -> u64 {
    let link = std::fs::read_link(Path::new("/proc/self/ns/pid")).unwrap_or_default();
    let digits = link.to_string_lossy();
    let digits = digits.trim_start_matches("pid:[").trim_end_matches(']');
    digits.parse().unwrap_or(0)
}

/// Returns the start time of a process in clock ticks since boot: field 22 of /proc/PID/stat. The
/// process name may contain spaces.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cgroups_of_dead_profilers_of_this_namespace_are_left() {
        let started = |process| (process == 10).then_some(77);
        for (name, left) in [
            ("tetris-profile-5-10-77-0", false),
            ("tetris-profile-5-10-76-0", true),
            ("tetris-profile-5-11-77-3", true),
            ("tetris-profile-6-11-77-3", false),
            ("tetris-profile-5-11-77", false),
            ("tetris-profile-5-11-77-3-4", false),
            ("tetris-density-5-11-77-3", false),
            ("tetris-profile-x-11-77-3", false),
        ] {
            assert_eq!(is_left(name, 5, started), left, "{name}");
        }
    }

    #[test]
    fn the_own_cgroups_are_not_left_and_have_distinct_names() {
        let name = unique();
        assert!(!is_left(&name, namespace(), started), "{name}");
        assert_ne!(name, unique());
        assert!(started(std::process::id()).unwrap() > 0 || std::process::id() == 1);
    }
}
