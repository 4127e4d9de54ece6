//! A tenant's socket.
//!
//! A lock on a file beside it says whose it is: whoever has the lock may replace the socket, which is dead then. The lock file stays.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use tetris_closer::{Aside, Closer};

use super::ServerError;
use super::core::Core;
use super::mailbox::Mailbox;
use super::session::Session;
use super::tenant::Tenant;
use crate::memory::DeviceMemory;
use crate::wire::{Bell, Wire, is_readable};

/// After a connection could not be taken for want of descriptors, so that the thread does not turn in circles.
const PAUSE: Duration = Duration::from_millis(100);

/// Streams of clients that are being closed. While there are so many no connection is taken: whoever connects waits in the listener's queue.
const CLOSING: usize = 64;

/// A socket that this process owns. Dropping it removes the socket.
#[derive(Debug)]
pub(super) struct Bound {
    /// Closed aside, and with it what clients sent with connections that were not taken.
    listener: Aside<UnixListener>,
    path: PathBuf,
    _lock: File,
}

impl Bound {
    /// Listens at `path`, which everybody may connect to who reaches it.
    pub fn new(path: &Path, closer: &Closer) -> Result<Self, ServerError> {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let lock = lock(path, &beside(".lock"))?;
        let new = beside(".new");
        let error = |action, source| ServerError::Socket {
            action,
            path: path.to_owned(),
            source,
        };
        match std::fs::remove_file(&new) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(error("replace", source));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(|source| error("listen at", source))?;
        let open = Permissions::from_mode(0o666);
        std::fs::set_permissions(&new, open).map_err(|source| error("open up", source))?;
        std::fs::rename(&new, path).map_err(|source| error("replace", source))?;
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.map_err(|source| error("listen at", source))?;
        Ok(Self {
            listener: Aside::new(listener, closer),
            path: path.to_owned(),
            _lock: lock,
        })
    }
}

fn lock(path: &Path, beside: &Path) -> Result<File, ServerError> {
    let error = |source| ServerError::Socket {
        action: "lock",
        path: beside.to_owned(),
        source,
    };
    let mut options = OpenOptions::new();
    // Whoever can open the file can take the lock.
    let file = options
        .mode(0o600)
        .write(true)
        .create(true)
        .truncate(false)
        .open(beside);
    let file = file.map_err(error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServerError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // While the lock is held nobody else has put a socket there.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "a socket could not be removed");
        }
    }
}

/// Takes connections until told to stop.
pub(super) struct Listener<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub tenant: Arc<Tenant>,
    pub bound: Bound,
    pub stop: Arc<Bell>,
}

impl<D: DeviceMemory + 'static> Listener<D> {
    /// Returns the threads of connections that are left.
    pub fn run(self) -> Vec<JoinHandle<()>> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut until = None;
        loop {
            let socket = self.bound.listener.as_fd();
            match is_readable(socket, &self.stop, until.take()) {
                Ok(ready) if !ready.bell => {}
                _ => return threads,
            }
            threads.retain(|thread| !thread.is_finished());
            if self.core.closer.waiting() >= CLOSING {
                if !is_silent(&self.stop, Some(Instant::now() + PAUSE)) {
                    return threads;
                }
                continue;
            }
            match self.bound.listener.accept() {
                Ok((stream, _)) => {
                    let stream = Aside::new(stream, &self.core.closer);
                    threads.extend(self.take(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection to the mirror could not be taken");
                    let until = Some(Instant::now() + PAUSE);
                    if !is_silent(&self.stop, until) {
                        return threads;
                    }
                }
            }
        }
    }

    /// Starts a connection's thread, if there may be one more.
    fn take(&self, stream: Aside<UnixStream>) -> Option<JoinHandle<()>> {
        let started = self.start(stream);
        let count = &self.core.metrics;
        match &started {
            Some(_) => count.connections_accepted.one(),
            None => count.connections_refused.one(),
        }
        started
    }

    fn start(&self, stream: Aside<UnixStream>) -> Option<JoinHandle<()>> {
        let user = socket_peercred(&stream).ok()?.uid.as_raw();
        let wire = Arc::new(Wire::served(stream, &self.core.closer).ok()?);
        let user = (self.tenant.id, user);
        let limits = self.core.limits();
        let place = self.core.gate.enter(&limits, user, Arc::clone(&wire))?;
        let session = Session {
            core: Arc::clone(&self.core),
            tenant: Arc::clone(&self.tenant),
            wire,
            mailbox: Arc::new(Mailbox::new().ok()?),
        };
        let serve = move || {
            session.run();
            drop(session);
            drop(place);
        };
        let thread = std::thread::Builder::new().name("mirror-client".to_owned());
        thread.spawn(serve).ok()
    }
}

/// Waits for the moment; `false` if the bell rings before.
fn is_silent(bell: &Bell, until: Option<Instant>) -> bool {
    is_readable(bell.as_fd(), bell, until).is_ok_and(|ready| !ready.bell)
}
