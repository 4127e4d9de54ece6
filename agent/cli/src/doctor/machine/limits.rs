//! Limits of this process: mappings and descriptors.

use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use tetris_loader::{PrivateCause, Words};

use super::unknown;
use crate::doctor::check::Check;

const MAP_LIMIT: &str = "/proc/sys/vm/max_map_count";
const MAPS: &str = "/proc/self/maps";
/// Mappings for a large model: each object is one, and a file has at most 16,384.
const ENOUGH_MAPPINGS: u64 = 32_768;
/// Descriptors that a load takes for a moment: one for each thread, a file and a socket, and those of the program.
const ENOUGH_DESCRIPTORS: u64 = 256;

/// Most mappings that a process may have, if the kernel reports it.
pub(in crate::doctor) fn map_limit() -> Option<u64> {
    let text = std::fs::read_to_string(MAP_LIMIT).ok()?;
    text.trim().parse().ok()
}

/// The limit on mappings, each of which is an object at most.
pub(super) fn mappings() -> Check {
    let used = std::fs::read(MAPS).map_or(0, |maps| maps.split(|byte| *byte == b'\n').count());
    match map_limit() {
        Some(limit) => of_mappings(limit, used as u64),
        None => unknown("mappings", format_args!("{MAP_LIMIT} is no number")),
    }
}

fn of_mappings(limit: u64, used: u64) -> Check {
    let found = format!("vm.max_map_count is {limit}; this process has {used}");
    let check = if limit >= ENOUGH_MAPPINGS {
        Check::ok("mappings", found)
    } else {
        Check::warning(
            "mappings",
            format!("{found}; weights beyond it are private"),
        )
        .expected(format_args!(
            "{ENOUGH_MAPPINGS} or more: each object is a mapping"
        ))
        .remedy(PrivateCause::MappingLimit.remedy(Words::of_process(), Path::new("")))
    };
    check.fact("limit", limit).fact("used", used)
}

/// The limit on open files.
pub(super) fn descriptors() -> Check {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => of_descriptors(soft, hard),
        Err(error) => unknown("descriptors", error),
    }
}

fn of_descriptors(soft: u64, hard: u64) -> Check {
    let text = |limit| match limit {
        RLIM_INFINITY => "any number".to_owned(),
        limit => limit.to_string(),
    };
    let (at_most, raised) = (text(soft), text(hard));
    let found = format!("at most {at_most} open files (RLIMIT_NOFILE, raised to {raised} at most)");
    let check = if soft < ENOUGH_DESCRIPTORS {
        Check::warning("descriptors", found)
            .expected(format_args!("{ENOUGH_DESCRIPTORS} or more"))
            .remedy("run `ulimit -n 1024` before the program")
    } else {
        Check::ok("descriptors", found)
    };
    let number = |limit| (limit != RLIM_INFINITY).then_some(limit);
    check.fact("soft", number(soft)).fact("hard", number(hard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn low_limits_are_warnings_with_a_command() {
        assert_eq!(of_mappings(65_530, 100).status, Status::Ok);
        let few = of_mappings(1000, 100);
        assert_eq!(few.status, Status::Warning);
        assert!(few.remedy.unwrap().contains("sysctl"));
        let any = of_descriptors(RLIM_INFINITY, RLIM_INFINITY);
        assert_eq!(any.status, Status::Ok);
        assert!(any.found.contains("any number"), "{}", any.found);
        let few = of_descriptors(64, 64);
        assert_eq!(few.status, Status::Warning);
    }
}
