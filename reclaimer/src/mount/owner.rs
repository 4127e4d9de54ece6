//! The rights of the stores' owner on files, for a process that has more.

use std::io;

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

/// Does `work` in a thread that has this user's and group's rights on files, and no others: the
/// kernel takes the capabilities that pass over such rights from a thread of root whose file system
/// user is another (capabilities(7)).
///
/// # Errors
/// When this process may not act as `user`, or no thread can be made.
pub fn with_rights_of<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let work = || {
        become_user(user)?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("owner".to_owned());
        let done = thread.spawn_scoped(scope, work)?.join();
        done.map_err(|_| io::Error::other("the thread of the stores' owner panicked"))?
    })
}

/// The calls report no error; a second one returns what is in force.
fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    // The group first: the right to change it goes with the user.
    setfsgid(gid);
    setfsuid(uid);
    if (setfsuid(uid), setfsgid(gid)) == (uid, gid) {
        return Ok(());
    }
    let message = format!("this process may not act on files as user {user}; it needs root");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn rights_are_those_of_the_user_and_end_with_the_work() {
        if !nix::unistd::geteuid().is_root() {
            use std::io::Write as _;
            let _ = writeln!(io::stderr(), "SKIPPED: needs root to act as another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (secret, open) = (dir.path().join("secret"), dir.path().join("open"));
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let made = open.join("made");
        let (read, chowned) = with_rights_of(9460, || {
            fs::write(&made, "x").unwrap();
            (
                fs::read(&secret).map_err(|error| error.kind()),
                std::os::unix::fs::lchown(&made, Some(0), Some(0)).is_ok(),
            )
        })
        .unwrap();
        assert_eq!(read, Err(io::ErrorKind::PermissionDenied));
        assert!(!chowned);
        let made = fs::metadata(&made).unwrap();
        assert_eq!((made.uid(), made.gid()), (9460, 9460));
        assert_eq!(fs::read(&secret).unwrap(), b"x");
    }
}
