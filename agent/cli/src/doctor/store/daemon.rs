//! The daemon of a store: reached or not, and its version beside this one's.

use std::path::Path;

use tetris_loader::{PrivateCause, Words};

use super::{OpenStore, Publishing};
use crate::doctor::check::Check;
use tetris_agent::daemon::DaemonError;

/// Version of this build.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// The daemon that looks after the store.
pub(super) fn check(open: &OpenStore) -> Check {
    let socket = open.store.daemon_socket();
    let is_left = socket.symlink_metadata().is_ok();
    of(&open.daemon, open.publishing(), is_left, open.store.root())
        .fact("socket", socket.to_string_lossy())
        .fact("own_version", OWN)
}

/// `is_left` is true if there is a socket, alive or dead.
fn of(
    daemon: &Result<String, DaemonError>,
    publishing: Publishing,
    is_left: bool,
    dir: &Path,
) -> Check {
    match daemon {
        Ok(version) if version == OWN => {
            Check::ok("daemon", format!("tetris-node {version} answers"))
                .fact("version", version.as_str())
        }
        Ok(version) => Check::note(
            "daemon",
            format!("tetris-node {version} answers; this is {OWN}, and both speak one protocol"),
        )
        .fact("version", version.as_str()),
        Err(DaemonError::Version {
            found, expected, ..
        }) => Check::warning(
            "daemon",
            format!("it speaks protocol version {found}; loads do without it"),
        )
        .expected(format_args!("protocol version {expected}"))
        .remedy("install tetris and tetris-node of one release"),
        Err(error) if error.is_absent() && publishing == Publishing::Impossible => {
            Check::warning("daemon", absent(is_left))
                .expected("a daemon, since this store is read-only here")
        }
        Err(error) if error.is_absent() => Check::ok(
            "daemon",
            format!(
                "{}; processes publish and free by themselves",
                absent(is_left)
            ),
        ),
        Err(error) => Check::warning("daemon", error.to_string())
            .expected("a daemon that answers in time")
            .remedy(PrivateCause::DaemonSilent.remedy(Words::of_process(), dir)),
    }
}

const fn absent(is_left: bool) -> &'static str {
    if is_left {
        "none; its socket is left over"
    } else {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn a_daemon_is_needed_only_where_nobody_else_publishes() {
        let dir = Path::new("/run/tetris/store");
        let absent = Err(DaemonError::Absent {
            socket: dir.join("daemon"),
        });
        let verdict = of(&absent, Publishing::Own, false, dir);
        assert_eq!(verdict.status, Status::Ok);
        let reader = of(&absent, Publishing::Impossible, true, dir);
        assert_eq!(reader.status, Status::Warning);
        assert!(reader.found.contains("left over"));
    }

    #[test]
    fn versions_are_compared() {
        let dir = Path::new("/run/tetris/store");
        let answered = |version: &str| {
            let version = version.to_owned();
            of(&Ok(version), Publishing::Brokered, true, dir)
        };
        assert_eq!(answered(OWN).status, Status::Ok);
        let other = answered("99.0.0");
        assert_eq!(other.status, Status::Note);
        assert!(other.found.contains("99.0.0") && other.found.contains(OWN));
        let protocol = Err(DaemonError::Version {
            socket: dir.join("daemon"),
            found: 2,
            expected: 1,
        });
        let check = of(&protocol, Publishing::Impossible, true, dir);
        assert_eq!(check.status, Status::Warning);
        assert!(check.remedy.is_some());
    }
}
