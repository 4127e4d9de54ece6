//! Room of the store, and its size beside the machine's memory.

use std::path::Path;

use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::Usage;
use tetris_units::size::Bytes;

use super::{OpenStore, Publishing};
use crate::doctor::check::Check;
use crate::doctor::installed_memory;

/// A store with less room than this hundredth of its capacity is called full.
const FULL_PERCENT: u64 = 1;

/// The room that loads find.
pub(super) fn check(open: &OpenStore) -> Check {
    let room = Room {
        usage: open.usage,
        freeable: open.freeable(),
        may_free: open.publishing() != Publishing::Impossible,
        machine: installed_memory(),
    };
    room.check(open.store.root())
}

struct Room {
    usage: Usage,
    /// Bytes of objects without holders.
    freeable: u64,
    /// True if this user's loads have room made.
    may_free: bool,
    /// Memory of the machine in bytes, if known.
    machine: Option<u64>,
}

impl Room {
    fn check(&self, dir: &Path) -> Check {
        let Usage {
            capacity,
            free,
            inodes,
            inodes_free,
        } = self.usage;
        let found = format!("{} free of {}", Bytes(free), Bytes(capacity));
        let freeable = if self.may_free { self.freeable } else { 0 };
        // The size of the next model is not known; a quarter more is a step.
        let needed = capacity.saturating_add(capacity / 4);
        let full = PrivateCause::Full { needed };
        let check = if inodes > 0 && inodes_free == 0 {
            Check::warning("room", format!("{found}, but all {inodes} files are taken"))
                .expected("free inodes")
                .remedy(format_args!("run `tetris gc --store {}`", dir.display()))
        } else if free.saturating_add(freeable) <= capacity / 100 * FULL_PERCENT {
            Check::warning(
                "room",
                format!("{found}, and its objects are in use: loads are private"),
            )
            .expected("room for the models that are loaded next")
            .remedy(full.remedy(Words::of_process(), dir))
        } else if free <= capacity / 100 * FULL_PERCENT {
            Check::note(
                "room",
                format!("{found}; loads free {} that nobody holds", Bytes(freeable)),
            )
        } else if let Some(machine) = self.machine.filter(|machine| capacity > *machine) {
            Check::warning(
                "room",
                format!("{found}, more than the machine's {}", Bytes(machine)),
            )
            .expected("a store that fits into memory")
            .remedy(format_args!(
                "run `sudo tetris init {} --size 50%`",
                dir.display()
            ))
        } else {
            Check::ok("room", found)
        };
        check
            .fact("capacity_bytes", capacity)
            .fact("free_bytes", free)
            .fact("freeable_bytes", self.freeable)
            .fact("inodes", inodes)
            .fact("inodes_free", inodes_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    const GIB: u64 = 1 << 30;

    fn room(free: u64, freeable: u64, may_free: bool) -> Room {
        Room {
            usage: Usage {
                capacity: 8 * GIB,
                free,
                inodes: 100,
                inodes_free: 50,
            },
            freeable,
            may_free,
            machine: Some(64 * GIB),
        }
    }

    #[test]
    fn a_full_store_is_a_warning_unless_loads_free_room() {
        for (room, status) in [
            (room(4 * GIB, 0, true), Status::Ok),
            (room(1 << 20, GIB, true), Status::Note),
            (room(1 << 20, GIB, false), Status::Warning),
            (room(0, 0, true), Status::Warning),
        ] {
            let check = room.check(Path::new("/x"));
            assert_eq!(check.status, status, "{check:?}");
        }
    }

    #[test]
    fn a_store_larger_than_the_machine_or_without_inodes_is_a_warning() {
        let mut large = room(4 * GIB, 0, true);
        large.machine = Some(2 * GIB);
        assert_eq!(large.check(Path::new("/x")).status, Status::Warning);
        let mut inodes = room(4 * GIB, 0, true);
        inodes.usage.inodes_free = 0;
        let check = inodes.check(Path::new("/x"));
        assert!(
            check.found.contains("100") && check.remedy.is_some(),
            "{check:?}"
        );
        // Zero inodes: the file system sets no limit.
        inodes.usage.inodes = 0;
        assert_eq!(inodes.check(Path::new("/x")).status, Status::Ok);
    }
}
