//! Memory: of the machine, and the limit of this process's control group.

use std::path::Path;

use tetris_conventions::cgroup::memory_limit;
use tetris_units::size::Bytes;

use crate::doctor::check::Check;
use crate::doctor::installed_memory;
use crate::doctor::store::{Publishing, SeenStore};

/// A file that the root of version 2 has, if no other version has the memory controller.
const VERSION_2: &str = "/sys/fs/cgroup/cgroup.controllers";

/// The memory limit of this process. Pages of objects are charged to the process that writes them.
pub(super) fn check(seen: &SeenStore) -> Check {
    let version = if Path::new(VERSION_2).exists() { 2 } else { 1 };
    let store_of_user = seen
        .open()
        .filter(|open| open.publishing() == Publishing::Own);
    of(
        version,
        memory_limit(),
        store_of_user.map(|open| open.usage.capacity),
    )
    .fact("machine_bytes", installed_memory())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn a_limit_below_the_store_is_noted_for_publishers() {
        let gib = 1 << 30;
        assert_eq!(of(2, Some(gib), Some(8 * gib)).status, Status::Note);
        assert_eq!(of(2, Some(gib), None).status, Status::Ok);
        assert_eq!(of(1, None, Some(gib)).status, Status::Ok);
    }
}
