//! Taking and giving up the socket's name.

use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::geteuid;
use std::os::fd::AsRawFd;
use tetris_agent::daemon::Address;
use tetris_closer::{Aside, Closer};
use tetris_store_layout::{CreationLock, Digest, Store};
use tokio::net::UnixListener;

use super::SocketError;
use super::frames::Intake;
use crate::ingest::Broker;

/// What the lock on the socket's name is called; see LAYOUT.md 11.1.
const LOCK_KEY: &[u8] = b"tetris daemon socket";
/// Others hold it for some system calls.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Threads that close what came through one store's socket.
const CLOSING_THREADS: usize = 8;
/// Everyone may connect; what they may do there is decided by who they are.
const MODE: u32 = 0o666;

/// A socket that listens in a store's root. Its name is removed when it is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Closed aside: what clients sent with connections that were not taken yet is closed with it.
    pub(super) listener: Aside<UnixListener>,
    pub(super) intake: Intake,
    pub(super) store: Arc<Store>,
    pub(super) broker: Option<Broker>,
    pub(super) readers_only: bool,
    pub(super) name: String,
    path: PathBuf,
    /// Device and inode of the socket: a later daemon's is another one.
    file: (u64, u64),
}

impl Socket {
    /// Listens in the store at `root`, which requests call `name`. Takes the place of a socket on which nobody
    /// listens. Blocks while another daemon does the same, for 5 s at most.
    ///
    /// # Errors
    /// [`SocketError::InUse`] when a daemon listens there, [`SocketError::NotOurs`] when it is not the socket of a
    /// daemon of this user, and when the store cannot be opened or written.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O, as [`UnixListener::from_std`].
    pub fn bind(root: &Path, name: impl Into<String>) -> Result<Self, SocketError> {
        let store = Store::open(root)?;
        let path = store.daemon_socket();
        let lock = lock(&store)?;
        clear(&path)?;
        let (listener, file) = listen(&path)?;
        drop(lock);
        let closer = Closer::new(CLOSING_THREADS);
        let listener = UnixListener::from_std(listener).map_err(io_error("listen on", &path))?;
        Ok(Self {
            listener: Aside::new(listener, &closer),
            intake: Intake::new(closer),
            store: Arc::new(store),
            broker: None,
            readers_only: false,
            name: name.into(),
            path,
            file,
        })
    }

    /// Publishes files that clients pass, by `broker`.
    #[must_use]
    pub fn with_broker(mut self, broker: Broker) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Nobody may have room made here: whoever comes can only read the store, root of a container among them. All are admitted
    /// within [`Limits::per_user`](super::Limits::per_user).
    #[must_use]
    pub fn for_readers(mut self, readers_only: bool) -> Self {
        self.readers_only = readers_only;
        self
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn unlink(&self) -> Result<(), SocketError> {
        let _lock = lock(&self.store)?;
        let still_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == self.file);
        if still_ours {
            fs::remove_file(&self.path).map_err(io_error("remove", &self.path))?;
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = self.unlink() {
            // The next daemon finds that nobody listens, and removes it.
            tracing::warn!(%error, "the daemon's socket was left behind");
        }
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    move |source| SocketError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Keeps other daemons from changing the name meanwhile: between finding that nobody listens and replacing it, one
/// could have started.
///
/// `None` when somebody who can only read has put a lock in the way: that is no daemon, and does not keep this one from starting.
fn lock(store: &Store) -> Result<Option<CreationLock>, SocketError> {
    let key = Digest::of(LOCK_KEY);
    let lock = store.creation_lock(&key, LOCK_WAIT, || false);
    if lock.is_none() && store.is_obstructed(&key) {
        let path = store.root().join("locks");
        tracing::warn!(path = %path.display(), "a read lock is in the way of daemons; going on without the lock. /proc/locks names its owner");
        return Ok(None);
    }
    if lock.is_none() {
        let path = store.root().to_owned();
        return Err(SocketError::Locked { path });
    }
    Ok(lock)
}

fn address(path: &Path) -> Result<Address, SocketError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or(OsStr::new(""));
    Address::new(folder, name).map_err(io_error("reach", path))
}

/// Checks that what has the name may be replaced, if anything has it.
fn clear(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(io_error("stat", path))?,
    };
    let expected_uid = geteuid().as_raw();
    if !found.file_type().is_socket() || found.uid() != expected_uid {
        let what = if found.file_type().is_socket() {
            "a socket"
        } else {
            "no socket"
        };
        return Err(SocketError::NotOurs {
            path: path.to_owned(),
            found: format!("{what} of uid {}", found.uid()),
            expected_uid,
        });
    }
    if is_live(path)? {
        return Err(SocketError::InUse {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Whether somebody listens. One whose queue is full does.
fn is_live(path: &Path) -> Result<bool, SocketError> {
    let failed = |error: Errno| io_error("connect to", path)(error.into());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
    let address = address(path)?;
    let addr = UnixAddr::new(address.path()).map_err(failed)?;
    match connect(probe.as_raw_fd(), &addr) {
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Listens under a second name and moves that over the first: whoever connects finds the old socket or the new one.
fn listen(path: &Path) -> Result<(StdListener, (u64, u64)), SocketError> {
    let new = path.with_extension("new");
    // Of a daemon that was killed between the two: whoever lives holds the lock.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io_error("remove", &new)(error));
        }
        _ => {}
    }
    let address = address(&new)?;
    let listener = StdListener::bind(address.path())
        .or_else(|error| {
            // No further file can be made, and the dead socket is one.
            if error.kind() != ErrorKind::StorageFull || fs::remove_file(path).is_err() {
                return Err(error);
            }
            StdListener::bind(address.path())
        })
        .map_err(io_error("bind", &new))?;
    listener
        .set_nonblocking(true)
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(MODE)))
        .map_err(io_error("set up", &new))?;
    let file = fs::symlink_metadata(&new).map_err(io_error("stat", &new))?;
    fs::rename(&new, path).map_err(io_error("rename", &new))?;
    Ok((listener, id(&file)))
}
