//! Limits of this process: mappings and descriptors.

use std::path::Path;

use tetris_loader::{PrivateCause, Words};

use super::unknown;
use crate::doctor::check::Check;

const MAP_LIMIT: &str = "/proc/sys/vm/max_map_count";
const MAPS: &str = "/proc/self/maps";
const LIMITS: &str = "/proc/self/limits";
/// Mappings for a large model: each object is one, and a file has at most 16,384.
const ENOUGH_MAPPINGS: u64 = 32_768;
/// Descriptors that a load takes for a moment: one for each thread, a file and a socket, and those of the program.
const ENOUGH_DESCRIPTORS: u64 = 256;

/// Most mappings that a process may have, if the kernel says.
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
    let text = std::fs::read(LIMITS).unwrap_or_default();
    match parse_limit(&String::from_utf8_lossy(&text), "Max open files") {
        Some(limit) => of_descriptors(limit),
        None => unknown("descriptors", format_args!("{LIMITS} does not say")),
    }
}

fn of_descriptors((soft, hard): (Limit, Limit)) -> Check {
    let found = format!("at most {soft} open files (RLIMIT_NOFILE, raised to {hard} at most)");
    let check = match soft.0 {
        Some(soft) if soft < ENOUGH_DESCRIPTORS => Check::warning("descriptors", found)
            .expected(format_args!("{ENOUGH_DESCRIPTORS} or more"))
            .remedy("run `ulimit -n 1024` before the program"),
        _ => Check::ok("descriptors", found),
    };
    check.fact("soft", soft.0).fact("hard", hard.0)
}

/// A limit; none is `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<u64>);

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("any number"),
        }
    }
}

/// Soft and hard limit of this name in the table of proc_pid_limits(5).
fn parse_limit(table: &str, name: &str) -> Option<(Limit, Limit)> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let mut fields = line.split_ascii_whitespace();
    let mut limit = || match fields.next()? {
        "unlimited" => Some(Limit(None)),
        number => number.parse().ok().map(|number| Limit(Some(number))),
    };
    Some((limit()?, limit()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::doctor::check::Status;

    const TABLE: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
";

    #[test]
    fn limits_are_numbers_or_none() {
        let files = parse_limit(TABLE, "Max open files");
        assert_eq!(files, Some((Limit(Some(1024)), Limit(Some(524_288)))));
        let time = parse_limit(TABLE, "Max cpu time");
        assert_eq!(time, Some((Limit(None), Limit(None))));
        assert_eq!(parse_limit(TABLE, "Max locked memory"), None);
        assert_eq!(parse_limit("Max open files x y", "Max open files"), None);
    }

    #[test]
    fn low_limits_are_warnings_with_a_command() {
        assert_eq!(of_mappings(65_530, 100).status, Status::Ok);
        let few = of_mappings(1000, 100);
        assert_eq!(few.status, Status::Warning);
        assert!(few.remedy.unwrap().contains("sysctl"));
        assert_eq!(
            of_descriptors((Limit(None), Limit(None))).status,
            Status::Ok
        );
        let few = of_descriptors((Limit(Some(64)), Limit(Some(64))));
        assert_eq!(few.status, Status::Warning);
    }

    proptest! {
        #[test]
        fn arbitrary_tables_are_read_without_panic(table: String) {
            let _limit = parse_limit(&table, "Max open files");
            let _limit = parse_limit(&format!("Max open files {table}"), "Max open files");
        }
    }
}
