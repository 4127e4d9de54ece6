//! Memory: of the machine, and the limit of this process's control group.

use std::path::{Component, Path, PathBuf};
use tetris_conventions::size::Bytes;

use super::unknown;
use crate::doctor::check::Check;
use crate::doctor::installed_memory;
use crate::doctor::store::{Publishing, SeenStore};

const CGROUP: &str = "/proc/self/cgroup";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// Version 1 says a number like this for no limit.
const UNLIMITED: u64 = 1 << 60;

/// The memory limit of this process. Pages of objects are charged to the process that writes them.
pub(super) fn check(seen: &SeenStore) -> Check {
    let text = match std::fs::read(CGROUP) {
        Ok(text) => text,
        Err(error) => return unknown("memory", error),
    };
    let groups = Groups::parse(&String::from_utf8_lossy(&text));
    let Some(group) = groups.memory() else {
        return unknown(
            "memory",
            "no control group of this process accounts for memory",
        );
    };
    let limit = group.limit(Path::new(CGROUP_ROOT));
    let own = seen
        .open()
        .filter(|open| open.publishing() == Publishing::Own);
    of(group.version(), limit, own.map(|open| open.usage.capacity))
        .fact("machine_bytes", installed_memory::total())
}

/// `capacity` is that of a store that this process publishes to itself.
fn of(version: u8, limit: Option<u64>, capacity: Option<u64>) -> Check {
    let check = match (limit, capacity) {
        (Some(limit), Some(capacity)) if limit < capacity => Check::note(
            "memory",
            format!(
                "limit {} (control group v{version}), less than the store's {}; what this process publishes counts",
                Bytes(limit),
                Bytes(capacity)
            ),
        ),
        (Some(limit), _) => Check::ok(
            "memory",
            format!("limit {} (control group v{version})", Bytes(limit)),
        ),
        (None, _) => Check::ok("memory", format!("no limit (control group v{version})")),
    };
    check
        .fact("cgroup_version", version)
        .fact("limit_bytes", limit)
}

/// The control groups of a process: of version 2, and of version 1 with the memory controller.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
}

/// A control group that may limit memory.
#[derive(Debug, PartialEq, Eq)]
enum Group<'g> {
    V1(&'g Path),
    V2(&'g Path),
}

impl Groups {
    /// Reads lines `0::/user.slice` and `9:memory:/docker/1f`.
    fn parse(table: &str) -> Self {
        let mut groups = Self::default();
        for line in table.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if number == "0" && controllers.is_empty() {
                groups.unified = Some(inside(path));
            } else if controllers
                .split(',')
                .any(|controller| controller == "memory")
            {
                groups.memory = Some(inside(path));
            }
        }
        groups
    }

    /// The group that accounts for memory. A controller is in one version alone.
    fn memory(&self) -> Option<Group<'_>> {
        let v1 = self.memory.as_deref().map(Group::V1);
        v1.or_else(|| self.unified.as_deref().map(Group::V2))
    }
}

impl Group<'_> {
    const fn version(&self) -> u8 {
        match self {
            Self::V1(_) => 1,
            Self::V2(_) => 2,
        }
    }

    /// The least limit of the group and of those above it, in bytes.
    fn limit(&self, root: &Path) -> Option<u64> {
        let (root, path, file) = match self {
            Self::V1(path) => (root.join("memory"), path, "memory.limit_in_bytes"),
            Self::V2(path) => (root.to_owned(), path, "memory.max"),
        };
        let limits = path.ancestors().filter_map(|group| {
            let text = std::fs::read_to_string(root.join(group).join(file)).ok()?;
            // `max` is no number, and no limit.
            text.trim().parse::<u64>().ok()
        });
        limits.filter(|limit| *limit < UNLIMITED).min()
    }
}

/// A group's path, relative to the root and without steps out of it: outside of the process's own
/// namespace a path begins with `/..`.
fn inside(path: &str) -> PathBuf {
    let parts = Path::new(path).components();
    parts
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn the_memory_controller_is_in_one_version() {
        let v2 = Groups::parse("0::/user.slice/session\n");
        assert_eq!(
            v2.memory(),
            Some(Group::V2(Path::new("user.slice/session")))
        );
        let hybrid = Groups::parse("12:cpu,memory:/docker/1f\n0::/x\n");
        assert_eq!(hybrid.memory(), Some(Group::V1(Path::new("docker/1f"))));
        assert_eq!(Groups::parse("3:cpu:/x\nnonsense\n").memory(), None);
    }

    #[test]
    fn the_least_limit_above_a_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("memory.max"), "max\n").unwrap();
        std::fs::write(root.path().join("a/memory.max"), "1048576\n").unwrap();
        let group = Groups::parse("0::/a/b");
        assert_eq!(group.memory().unwrap().limit(root.path()), Some(1 << 20));
        std::fs::write(deep.join("memory.max"), "4096\n").unwrap();
        assert_eq!(group.memory().unwrap().limit(root.path()), Some(4096));
        let v1 = root.path().join("memory/a");
        std::fs::create_dir_all(&v1).unwrap();
        std::fs::write(v1.join("memory.limit_in_bytes"), "9223372036854771712").unwrap();
        let group = Groups::parse("4:memory:/a");
        assert_eq!(group.memory().unwrap().limit(root.path()), None);
    }

    #[test]
    fn a_limit_below_the_store_is_noted_for_publishers() {
        let gib = 1 << 30;
        assert_eq!(of(2, Some(gib), Some(8 * gib)).status, Status::Note);
        assert_eq!(of(2, Some(gib), None).status, Status::Ok);
        assert_eq!(of(1, None, Some(gib)).status, Status::Ok);
    }

    proptest! {
        #[test]
        fn arbitrary_tables_never_lead_out_of_the_root(table: String, path: String) {
            for table in [table, format!("0::{path}"), format!("1:memory:{path}")] {
                let groups = Groups::parse(&table);
                for path in [groups.unified, groups.memory].into_iter().flatten() {
                    prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                }
            }
        }
    }
}
