//! The store's owner, and the way in which this user's loads publish.

use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use tetris_loader::{PrivateCause, Words};

use super::OpenStore;
use crate::doctor::check::Check;
use crate::doctor::users;
use tetris_agent::daemon::DaemonError;

/// Length of a file that is staged and dropped, to see whether publishing works.
const TRIAL: u64 = 4096;

/// The way in which the loads of a process publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::doctor) enum Publishing {
    /// By the process itself.
    Own,
    /// By the node daemon, to which it passes its files.
    Brokered,
    /// Not at all.
    Impossible,
}

impl Publishing {
    /// For a process that may write to the store or not, beside a daemon that gave this answer.
    pub(in crate::doctor) fn of(writable: bool, daemon: &Result<String, DaemonError>) -> Self {
        match daemon {
            _ if writable => Self::Own,
            Ok(_) => Self::Brokered,
            Err(_) => Self::Impossible,
        }
    }

    /// Its name in facts.
    pub(in crate::doctor) const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Brokered => "brokered",
            Self::Impossible => "impossible",
        }
    }
}

/// The checks of owner and permission.
pub(super) fn checks(open: &OpenStore) -> Vec<Check> {
    let user = geteuid().as_raw();
    match open.store.owner() {
        Ok(owner) => vec![
            if open.store.hides_owner() {
                hidden_owner(user)
            } else {
                owner_check(open.store.root(), owner, user, open.publishing())
            },
            publish_check(open, owner, user),
        ],
        Err(error) => vec![Check::failure("owner", error.to_string())],
    }
}

/// Of a store behind an idmapped mount, as pods have it.
fn hidden_owner(user: u32) -> Check {
    let found = format!(
        "hidden by an idmapped mount: no user here owns a file of the store; this runs as {}",
        users::name(user)
    );
    Check::ok("owner", found).fact("user", user)
}

fn owner_check(root: &Path, owner: u32, user: u32, publishing: Publishing) -> Check {
    let facts = |check: Check| check.fact("owner", owner).fact("user", user);
    let name = users::name(owner);
    facts(if owner == user {
        Check::ok("owner", format!("{name}, who runs this"))
    } else if user == 0 && publishing == Publishing::Own {
        Check::warning(
            "owner",
            format!("{name}; objects that root publishes here are root's, and their owner cannot free them"),
        )
        .expected(format_args!("commands on this store run as {name}"))
        .remedy(format_args!("run `sudo -u '#{owner}' tetris load --store {} MODEL`", root.display()))
    } else if owner == 0 || user == 0 {
        Check::ok(
            "owner",
            format!("{name}; this runs as {}", users::name(user)),
        )
    } else {
        Check::note(
            "owner",
            format!(
                "{name}, who decides its content; this runs as {}",
                users::name(user)
            ),
        )
    })
}

fn publish_check(open: &OpenStore, owner: u32, user: u32) -> Check {
    let publishing = open.publishing();
    let check = match publishing {
        Publishing::Own => match open.store.stage(TRIAL) {
            Ok(_dropped) => Check::ok("publish", "by this user's processes themselves"),
            Err(error) if error.is_full() => Check::warning("publish", "the store is full"),
            Err(error) => Check::failure("publish", error.to_string())
                .expected("an unnamed file in the store (O_TMPFILE)"),
        },
        Publishing::Brokered => Check::ok(
            "publish",
            format!("by the daemon; {}", read_only_because(open, owner, user)),
        ),
        Publishing::Impossible => impossible(open),
    };
    check
        .fact("publishing", publishing.name())
        .fact("read_only_mount", is_read_only_mount(open.store.root()))
}

/// Unknown models are private: no one publishes them.
fn impossible(open: &OpenStore) -> Check {
    let cause = match &open.daemon {
        Err(error) if !error.is_absent() => PrivateCause::DaemonSilent,
        _ => PrivateCause::of_read_only(&open.store),
    };
    let found = format!("{}; unknown models are private", cause.sentence());
    Check::warning("publish", found)
        .expected("a store that this user owns, or a daemon that publishes")
        .remedy(cause.remedy(Words::of_process(), open.store.root()))
        .fact("cause", cause.code())
}

fn read_only_because(open: &OpenStore, owner: u32, user: u32) -> String {
    if is_read_only_mount(open.store.root()) {
        "the store is mounted read-only here".to_owned()
    } else {
        let (owner, user) = (users::name(owner), users::name(user));
        format!("the store is {owner}'s and read-only for {user}")
    }
}

fn is_read_only_mount(root: &Path) -> bool {
    statvfs(root).is_ok_and(|stat| stat.flags().contains(FsFlags::ST_RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn a_reader_publishes_only_by_a_daemon_of_this_protocol() {
        let answered = Ok("1".to_owned());
        let socket = std::path::PathBuf::from("/s");
        let absent = || {
            Err(DaemonError::Absent {
                socket: socket.clone(),
            })
        };
        let other = Err(DaemonError::Version {
            socket: socket.clone(),
            found: 2,
            expected: 1,
        });
        assert_eq!(Publishing::of(true, &absent()), Publishing::Own);
        assert_eq!(Publishing::of(true, &answered), Publishing::Own);
        assert_eq!(Publishing::of(false, &answered), Publishing::Brokered);
        let version = "1".to_owned();
        for daemon in [absent(), other, Err(DaemonError::TooOld { version })] {
            assert_eq!(Publishing::of(false, &daemon), Publishing::Impossible);
        }
    }

    #[test]
    fn root_in_a_user_s_store_is_warned_and_others_are_not() {
        let root = Path::new("/dev/shm/tetris");
        for (owner, user, publishing, status) in [
            (0, 0, Publishing::Own, Status::Ok),
            (1000, 1000, Publishing::Own, Status::Ok),
            (0, 1000, Publishing::Brokered, Status::Ok),
            (1001, 1000, Publishing::Brokered, Status::Note),
            (1000, 0, Publishing::Own, Status::Warning),
            // Root of a pod whose volume is mounted read-only.
            (1000, 0, Publishing::Brokered, Status::Ok),
        ] {
            let check = owner_check(root, owner, user, publishing);
            assert_eq!(check.status, status, "{check:?}");
            assert_eq!(check.remedy.is_some(), status == Status::Warning);
        }
    }
}
