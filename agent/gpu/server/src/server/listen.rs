//! A tenant's socket.
//!
//! A lock on a file beside the socket marks its owner. The holder of the lock may replace a dead
//! socket. The lock file stays.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tetris_store_layout::open_or_create_without_waiting;
use tetris_wire::{Aside, Bell, BoundSocket, Closer, Connection, Peer, TakeoverError, is_readable};

use super::ServerError;
use super::core::Core;
use super::mailbox::Mailbox;
use super::session::Session;
use super::tenant::Tenant;
use tetris_gpu_device::DeviceMemory;

/// Pause after a connection could not be accepted for lack of descriptors, so that the thread does
/// not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of clients' streams that are being closed. At this number no connection is taken:
/// clients wait in the listener's queue.
const CLOSING: usize = 64;

/// A socket that this process owns. Dropping it removes the socket.
#[derive(Debug)]
pub(super) struct TenantSocket {
    /// Closed aside, with the descriptors of connections that were not taken.
    listener: Aside<UnixListener>,
    bound: BoundSocket,
    /// Locked until the drop.
    _lock: File,
}

impl TenantSocket {
    /// Listens at `path`. Every user who reaches it may connect.
    pub fn new(path: &Path, closer: &Closer) -> Result<Self, ServerError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = lock(path, Path::new(&beside))?;
        let (listener, bound) = BoundSocket::bind(path)?;
        Ok(Self {
            listener: Aside::new(listener, closer),
            bound,
            _lock: lock,
        })
    }
}

fn lock(path: &Path, beside: &Path) -> Result<File, ServerError> {
    let error = |source| ServerError::Lock {
        path: beside.to_owned(),
        source,
    };
    // Only the owner may open the file, because any process that can open it can take the lock.
    let file = open_or_create_without_waiting(beside).map_err(|failed| error(failed.source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let owner = tetris_wire::listening(path).ok().flatten();
            let pid = owner.and_then(|owner| owner.pid);
            let path = path.to_owned();
            Err(TakeoverError::InUse { path, pid }.into())
        }
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}

impl Drop for TenantSocket {
    fn drop(&mut self) {
        if let Err(error) = self.bound.remove() {
            tracing::debug!(%error, "a socket could not be removed");
        }
    }
}

/// Accepts connections until it is stopped.
pub(super) struct Listener<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub tenant: Arc<Tenant>,
    pub socket: TenantSocket,
    pub stop: Arc<Bell>,
}

impl<D: DeviceMemory + 'static> Listener<D> {
    /// Returns the remaining threads of connections.
    pub fn run(self) -> Vec<JoinHandle<()>> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut until = None;
        loop {
            let socket = self.socket.listener.as_fd();
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
            match self.socket.listener.accept() {
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

    /// Counts a client whose process the kernel does not tell, and logs the first.
    fn untracked(&self) {
        if self.core.metrics.untracked_connections.first() {
            tracing::warn!(
                "the kernel does not tell which process connects (Linux 6.5 does): device memory that a client keeps after it hung up counts as free"
            );
        }
    }

    fn start(&self, stream: Aside<UnixStream>) -> Option<JoinHandle<()>> {
        let user = (self.tenant.id, Peer::of(&*stream).ok()?.uid);
        let connection = Arc::new(Connection::served(stream, &self.core.closer).ok()?);
        let limits = self.core.limits();
        let connections = &self.core.connections;
        let permit = connections.admit(&limits, user, Arc::clone(&connection))?;
        // Processes that keep chunks after they hung up are fewer than connections, as a rule.
        let most = limits.connections.saturating_mul(2);
        let importer = self.core.importers.find(&*connection, most)?;
        if importer.is_unknown {
            self.untracked();
        }
        let session = Session {
            core: Arc::clone(&self.core),
            tenant: Arc::clone(&self.tenant),
            connection,
            mailbox: Arc::new(Mailbox::new().ok()?),
            importer: importer.importer,
        };
        let serve = move || {
            session.run();
            drop(session);
            drop(permit);
        };
        let thread = std::thread::Builder::new().name("mirror-client".to_owned());
        thread.spawn(serve).ok()
    }
}

/// Waits until `until`; returns false if the bell rings first.
fn is_silent(bell: &Bell, until: Option<Instant>) -> bool {
    is_readable(bell.as_fd(), bell, until).is_ok_and(|ready| !ready.bell)
}
