//! Taking over the name of a socket whose owner is gone.
//!
//! # Flow
//! The caller holds a lock that every owner of the name takes. A name is free if there is no file,
//! or a dead socket of this user, or of [`SOCKET_USER`], whose sockets this protocol's servers alone have. The new socket listens under a second name, `<path>.new`, and is
//! then renamed: a client finds the dead socket, none, or the new one (LAYOUT.md 11.1, steps D1 to
//! D5).
//!
//! # Guarantees
//! - The socket of a process that lives is never replaced.
//! - A file that is not a socket of these users is left alone.
//! - A name is removed only while device and inode are still this socket's.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tetris_store_layout::SOCKET_USER;
use thiserror::Error;

use crate::{Address, Peer};

/// Mode of a bound socket: every user may connect. The server decides by the peer's credentials.
const MODE: u32 = 0o666;

/// The reason a socket's name cannot be taken or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TakeoverError {
    /// Another process listens there.
    #[error("`{}` belongs to a daemon that is running{}; stop that one first", path.display(), named(*pid))]
    InUse {
        /// The socket.
        path: PathBuf,
        /// The process, where this one can see it.
        pid: Option<u32>,
    },
    /// Another file has the socket's name.
    #[error("`{}` is {found}, expected a socket of uid {expected_uid}; remove it if nothing needs it", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// The file found, in words.
        found: String,
        /// User id of this process.
        expected_uid: u32,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn named(pid: Option<u32>) -> String {
    pid.map(|pid| format!(", process {pid}"))
        .unwrap_or_default()
}

/// A process that listens on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// Its id; `None` in another PID namespace, or while its queue is full.
    pub pid: Option<u32>,
}

/// Returns the process that listens at `path`, if one does.
///
/// # Errors
///
/// [`TakeoverError::Io`] if the socket cannot be reached, for another reason than its absence.
pub fn listening(path: &Path) -> Result<Option<Listening>, TakeoverError> {
    let failed = |error: Errno| io_error("connect to", path)(error.into());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let probe = probe.map_err(failed)?;
    match rustix::net::connect(&probe, address(path)?.socket_address()) {
        Ok(()) => {
            let pid = Peer::of(&probe).ok().and_then(|peer| peer.pid);
            Ok(Some(Listening { pid }))
        }
        Err(Errno::AGAIN) => Ok(Some(Listening { pid: None })),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The name of a socket that this process listens on.
#[derive(Debug)]
pub struct BoundSocket {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl BoundSocket {
    /// Listens at `path`, with mode 0666 and without blocking. The caller holds the lock of this
    /// name.
    ///
    /// # Errors
    ///
    /// [`TakeoverError::InUse`] if a process listens there, [`TakeoverError::NotOurs`] if the file is not a
    /// socket of this user, and [`TakeoverError::Io`].
    pub fn bind(path: &Path) -> Result<(UnixListener, Self), TakeoverError> {
        check_free(path)?;
        listen(path)
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the name if it is still this socket's. The caller holds the lock of this name.
    ///
    /// # Errors
    ///
    /// [`TakeoverError::Io`] if the name cannot be removed.
    pub fn remove(&self) -> Result<(), TakeoverError> {
        let still_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.file);
        if still_ours {
            fs::remove_file(&self.path).map_err(io_error("remove", &self.path))?;
        }
        Ok(())
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TakeoverError {
    move |source| TakeoverError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn address(path: &Path) -> Result<Address, TakeoverError> {
    Address::of(path).map_err(io_error("reach", path))
}

/// Checks that the file of this name may be replaced, if there is one.
fn check_free(path: &Path) -> Result<(), TakeoverError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(io_error("stat", path))?,
    };
    let expected_uid = rustix::process::geteuid().as_raw();
    let is_ours = metadata.uid() == expected_uid || metadata.uid() == SOCKET_USER;
    if !metadata.file_type().is_socket() || !is_ours {
        let what = if metadata.file_type().is_socket() {
            "a socket"
        } else {
            "no socket"
        };
        return Err(TakeoverError::NotOurs {
            path: path.to_owned(),
            found: format!("{what} of uid {}", metadata.uid()),
            expected_uid,
        });
    }
    if let Some(Listening { pid }) = listening(path)? {
        let path = path.to_owned();
        return Err(TakeoverError::InUse { path, pid });
    }
    Ok(())
}

/// Listens under a second name and moves that over the first: a client finds the old socket or the
/// new one.
fn listen(path: &Path) -> Result<(UnixListener, BoundSocket), TakeoverError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // Left by a process that was killed between the two: a living one holds the lock.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io_error("remove", &new)(error));
        }
        _ => {}
    }
    let address = address(&new)?;
    let listener = UnixListener::bind(address.path())
        .or_else(|error| {
            // No further file can be made, and the dead socket is one.
            if error.kind() != ErrorKind::StorageFull || fs::remove_file(path).is_err() {
                return Err(error);
            }
            UnixListener::bind(address.path())
        })
        .map_err(io_error("bind", &new))?;
    listener
        .set_nonblocking(true)
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(MODE)))
        .map_err(io_error("set up", &new))?;
    let file = fs::symlink_metadata(&new).map_err(io_error("stat", &new))?;
    fs::rename(&new, path).map_err(io_error("rename", &new))?;
    let (path, file) = (path.to_owned(), identity(&file));
    Ok((listener, BoundSocket { path, file }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::lchown;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        drop(UnixListener::bind(dir.path().join("socket.new")).unwrap());
        let (_listener, bound) = BoundSocket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, MODE);
        let second = BoundSocket::bind(&path);
        assert!(
            matches!(second, Err(TakeoverError::InUse { pid, .. }) if pid == Some(std::process::id())),
            "{second:?}"
        );
        bound.remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        fs::write(&path, "someone's").unwrap();
        let bound = BoundSocket::bind(&path);
        assert!(
            matches!(bound, Err(TakeoverError::NotOurs { .. })),
            "{bound:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"someone's");
    }

    #[test]
    fn the_name_of_a_successor_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (_first, old) = BoundSocket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, _new) = BoundSocket::bind(&path).unwrap();
        old.remove().unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_socket_that_was_given_to_the_user_of_sockets_is_taken_over_and_no_other_users() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root, to give a file away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        for _ in 0..2 {
            let (listener, bound) = BoundSocket::bind(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().uid(), 0);
            lchown(&path, Some(SOCKET_USER), Some(SOCKET_USER)).unwrap();
            UnixStream::connect(&path).unwrap();
            // Killed: the name stays.
            drop((listener, bound));
        }
        lchown(&path, Some(1000), None).unwrap();
        let refused = BoundSocket::bind(&path).unwrap_err();
        assert!(
            refused.to_string().contains("a socket of uid 1000"),
            "{refused}"
        );
        // Given while it is listened on: it is still the owner's to remove.
        fs::remove_file(&path).unwrap();
        let (_listener, bound) = BoundSocket::bind(&path).unwrap();
        lchown(&path, Some(SOCKET_USER), Some(SOCKET_USER)).unwrap();
        bound.remove().unwrap();
        assert!(!path.exists());
    }
}
