//! Taking and giving up the socket's name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::{CreationLock, Digest, Store};
use tetris_wire::{Aside, BoundSocket, Closer};
use tokio::net::UnixListener;

use super::SocketError;
use super::frames::Intake;
use crate::cold::ColdOrders;
use crate::ingest::Broker;
use crate::models::KeptModels;
use crate::report::LatestStatus;

/// Name of the lock on the socket's name; see LAYOUT.md 11.1.
const LOCK_KEY: &[u8] = b"tetris daemon socket";
/// Longest wait for the lock, which others hold for some system calls.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Number of threads that close descriptors that came through one store's socket.
const CLOSING_THREADS: usize = 8;

/// A socket that listens in a store's root. Its name is removed when it is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Closed aside, with the descriptors of connections that were not taken yet.
    pub(super) listener: Aside<UnixListener>,
    pub(super) intake: Intake,
    pub(super) store: Arc<Store>,
    pub(super) broker: Option<Broker>,
    pub(super) status: Option<LatestStatus>,
    pub(super) models: KeptModels,
    pub(super) cold: Option<ColdOrders>,
    pub(super) readers_only: bool,
    pub(super) name: String,
    bound: BoundSocket,
}

impl Socket {
    /// Listens in the store at `root`, which requests call `name`. Takes the place of a socket on
    /// which no one listens. Blocks while another daemon does the same, for 5 s at most.
    ///
    /// # Errors
    /// [`SocketError::Takeover`] if a daemon listens there, or the file is not a socket of this user;
    /// [`SocketError::Store`] and [`SocketError::Locked`] if the store cannot be opened or written.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O, as [`UnixListener::from_std`].
    pub fn bind(root: &Path, name: impl Into<String>) -> Result<Self, SocketError> {
        let store = Store::open(root)?;
        let path = store.daemon_socket();
        let lock = lock(&store)?;
        let (listener, bound) = BoundSocket::bind(&path)?;
        drop(lock);
        let closer = Closer::new(CLOSING_THREADS);
        let listener = UnixListener::from_std(listener);
        let listener = listener.map_err(|source| SocketError::Listen { path, source })?;
        Ok(Self {
            listener: Aside::new(listener, &closer),
            intake: Intake::new(closer),
            store: Arc::new(store),
            broker: None,
            status: None,
            models: KeptModels::default(),
            cold: None,
            readers_only: false,
            name: name.into(),
            bound,
        })
    }

    /// Publishes files that clients pass, by `broker`.
    #[must_use]
    pub fn with_broker(mut self, broker: Broker) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Answers clients which models are declared warm, from `status`.
    #[must_use]
    pub fn with_status(mut self, status: LatestStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Notes in `models` which models clients keep.
    #[must_use]
    pub fn with_models(mut self, models: KeptModels) -> Self {
        self.models = models;
        self
    }

    /// Has models restored from `cold`.
    #[must_use]
    pub fn with_cold(mut self, cold: Option<ColdOrders>) -> Self {
        self.cold = cold;
        self
    }

    /// Makes room for no one here: clients can only read the store, root of a container among them.
    /// All are admitted within [`Limits::per_user`](super::Limits::per_user).
    #[must_use]
    pub fn for_readers(mut self, readers_only: bool) -> Self {
        self.readers_only = readers_only;
        self
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        self.bound.path()
    }

    fn unlink(&self) -> Result<(), SocketError> {
        let _lock = lock(&self.store)?;
        self.bound.remove()?;
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = self.unlink() {
            // The next daemon finds that no one listens, and removes it.
            tracing::warn!(%error, "the daemon's socket was left behind");
        }
    }
}

/// Takes the lock that keeps other daemons from changing the name. Without it, one could start
/// between the check that no one listens and the replacement.
///
/// `None` if a process that can only read has put a lock in the way: it is no daemon, and does not
/// keep this one from starting.
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
