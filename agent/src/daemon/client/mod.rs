//! A client of the node daemon: one connection for each request, or for those that belong together.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use tetris_store_layout::{
    Access, DerivedKey, ManifestId, ManifestKind, MapError, ObjectRef, PublishOutcome, Published,
    Store, TrustDomain,
};
use tetris_wire::MAX_TEXT_BYTES;
use tetris_wire::daemon::{BuildRequest, DerivedClaim, IngestReason, Message};

use super::connection::DaemonConnection;
use super::error::DaemonError;

/// A client of the daemon that looks after a store.
#[derive(Debug, Clone)]
pub struct DaemonClient {
    socket: PathBuf,
    timeout: Duration,
}

/// Room that the daemon made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomMade {
    /// Number of bytes that were free when the daemon answered.
    pub free_bytes: u64,
    /// Number of bytes freed for this request.
    pub freed_bytes: u64,
}

/// A model that the daemon brought back from its cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredModel {
    /// Number of objects read from the disk.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Content in the store. The daemon keeps it there while this lives, for some seconds at
/// most: time to map it.
pub struct HeldInStore<T> {
    /// The manifest of a file, or the object of memory.
    pub content: T,
    /// Number of bytes that the daemon read; 0 for content that it knew.
    pub bytes_read: u64,
    /// Closing it ends the daemon's hold.
    connection: DaemonConnection,
}

/// The right to build. It lasts until this is dropped, or the process ends.
pub struct BuildTurn {
    _connection: DaemonConnection,
}

impl<T: std::fmt::Debug> std::fmt::Debug for HeldInStore<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldInStore")
            .field("content", &self.content)
            .field("bytes_read", &self.bytes_read)
            .finish_non_exhaustive()
    }
}

impl<T> HeldInStore<T> {
    /// Informs the daemon that the content is mapped.
    pub fn done(self) {
        // Hanging up means the same.
        let _told = self.connection.send(&Message::IngestDone);
    }
}

impl HeldInStore<ObjectRef> {
    /// Maps the object, and informs the daemon. `None` when the object is gone again.
    ///
    /// # Errors
    /// As of [`Store::map`].
    pub(crate) fn map(self, store: &Store, access: Access) -> Result<Option<Published>, MapError> {
        let object = self.content;
        let outcome = match self.bytes_read {
            0 => PublishOutcome::Existing,
            _ => PublishOutcome::New,
        };
        let mapping = store.map(&object, access)?;
        self.done();
        Ok(mapping.map(|mapping| Published {
            object,
            outcome,
            mapping,
        }))
    }
}

impl DaemonClient {
    /// Creates a client of the daemon that listens at `socket`. `timeout` is the longest wait for each answer.
    pub fn new(socket: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self {
            socket: socket.into(),
            timeout,
        }
    }

    /// Creates a client of the daemon of `store`.
    pub fn of_store(store: &Store, timeout: Duration) -> Self {
        Self::new(store.daemon_socket(), timeout)
    }

    /// Asks the daemon for its version.
    ///
    /// # Errors
    ///
    /// Fails if there is no daemon, or it does not answer as one in time.
    pub fn version(&self) -> Result<String, DaemonError> {
        Ok(self.open()?.version().to_owned())
    }

    /// Asks for `bytes` of free room, and for room for `inodes` files.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses, there is none, or it does not answer in time.
    pub fn make_room(&self, bytes: u64, inodes: u32) -> Result<RoomMade, DaemonError> {
        match self.open()?.ask(&Message::MakeRoom { bytes, inodes })? {
            Message::RoomMade {
                free_bytes,
                freed_bytes,
            } => Ok(RoomMade {
                free_bytes,
                freed_bytes,
            }),
            Message::RoomRefused(refusal) => Err(DaemonError::RoomRefused(refusal)),
            other => Err(unexpected("room", &other)),
        }
    }

    /// Passes a model `file`, and waits until it is in the store. `progress` receives bytes read and bytes of the file.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the file, there is none, or it does not answer in time.
    pub fn ingest(
        &self,
        file: BorrowedFd<'_>,
        kind: ManifestKind,
        progress: impl FnMut(u64, u64),
    ) -> Result<HeldInStore<ManifestId>, DaemonError> {
        let mut connection = self.open()?;
        connection.pass(&Message::Ingest { kind }, file)?;
        let (content, bytes_read) = match connection.outcome(progress)? {
            Message::Ingested {
                manifest,
                bytes_read,
            } => (manifest, bytes_read),
            other => return Err(unexpected("an ingest", &other)),
        };
        connection.extend();
        Ok(HeldInStore {
            content,
            bytes_read,
            connection,
        })
    }

    /// Passes sealed `memory` whose bytes make `object`, and waits until that is in the store.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the memory, there is none, or it does not answer in time.
    pub fn publish_memory(
        &self,
        memory: BorrowedFd<'_>,
        object: ObjectRef,
    ) -> Result<HeldInStore<ObjectRef>, DaemonError> {
        let mut connection = self.open()?;
        connection.pass(&Message::Publish { object }, memory)?;
        let bytes_read = match connection.outcome(|_, _| {})? {
            Message::Published {
                object: found,
                bytes_read,
            } if found == object => bytes_read,
            other => return Err(unexpected("memory", &other)),
        };
        connection.extend();
        Ok(HeldInStore {
            content: object,
            bytes_read,
            connection,
        })
    }

    /// Passes sealed `memory` with the manifest of a file, `manifest_len` bytes long, and the file's header behind it, and waits
    /// until the manifest is published. A `sha256` is proved, which takes as long as hashing the file, and bound to it.
    /// `progress` receives bytes hashed and bytes passed.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the manifest, there is none, or it does not answer in time.
    pub fn assemble(
        &self,
        memory: BorrowedFd<'_>,
        manifest_len: u64,
        sha256: Option<[u8; 32]>,
        progress: impl FnMut(u64, u64),
    ) -> Result<HeldInStore<ManifestId>, DaemonError> {
        let mut connection = self.open()?;
        let message = Message::Assemble {
            manifest_len,
            sha256,
        };
        connection.pass(&message, memory)?;
        let (content, bytes_read) = match connection.outcome(progress)? {
            Message::Ingested {
                manifest,
                bytes_read,
            } => (manifest, bytes_read),
            other => return Err(unexpected("a manifest", &other)),
        };
        connection.extend();
        Ok(HeldInStore {
            content,
            bytes_read,
            connection,
        })
    }

    /// Asks for the trust domain of this process. `header` is the store's header, through the mount that this process has.
    /// `None` if it has no domain, or the daemon keeps no records for clients.
    ///
    /// # Errors
    ///
    /// Fails if there is no daemon, or it does not answer in time.
    pub fn trust_domain(&self, header: impl AsFd) -> Result<Option<TrustDomain>, DaemonError> {
        domain(&self.open()?, header)
    }

    /// Has the daemon bring the model pulled from `source` back from its cold tier, by the word of this process's domain or of the store's
    /// owner. `header` is the store's header, through the mount that this process has; `progress` receives bytes read and of all
    /// bytes. `None` if the tier does not have the model, or there is no tier.
    ///
    /// # Errors
    ///
    /// Fails if there is no daemon, or it does not answer in time.
    pub fn restore_model(
        &self,
        header: impl AsFd,
        source: &str,
        progress: impl FnMut(u64, u64),
    ) -> Result<Option<RestoredModel>, DaemonError> {
        if source.len() > MAX_TEXT_BYTES {
            return Ok(None);
        }
        let mut connection = self.open()?;
        domain(&connection, header)?;
        let source = source.to_owned();
        connection.send(&Message::RestoreModel { source })?;
        match connection.outcome(progress) {
            Ok(Message::ModelRestored { objects, bytes }) => {
                Ok(Some(RestoredModel { objects, bytes }))
            }
            Ok(other) => Err(unexpected("a model", &other)),
            Err(DaemonError::TooOld { .. }) => Ok(None),
            Err(DaemonError::Refused(refusal)) => {
                tracing::debug!(
                    reason = refusal.text,
                    "the model does not come from the disk"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Has the daemon record that `key` derives to `object`, by the word of this process, whose domain must be that of the key.
    /// `header` is the store's header, through the mount that this process has.
    ///
    /// # Errors
    ///
    /// Fails if there is no record: the daemon refuses, there is none, or it does not answer in time.
    pub fn record_derived(
        &self,
        header: impl AsFd,
        key: &DerivedKey,
        object: ObjectRef,
    ) -> Result<(), DaemonError> {
        let mut connection = self.open()?;
        let (expected, found) = (key.domain(), domain(&connection, header)?);
        if found != Some(expected) {
            return Err(DaemonError::Domain { expected, found });
        }
        connection.send(&Message::RecordDerived(DerivedClaim {
            object,
            source: key.source(),
            version: key.version(),
            transform: key.transform().to_owned(),
        }))?;
        match connection.outcome(|_, _| {})? {
            Message::Recorded => Ok(()),
            other => Err(unexpected("a record", &other)),
        }
    }

    /// Asks for the turn of this process to build what `key` derives to. `None` while another process has it: no one waits on a
    /// connection, of which a user has few. `header` is the store's header, through the mount that this process has, whose
    /// domain must be that of the key.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses, there is none, or it does not answer in time.
    pub fn take_turn(
        &self,
        header: impl AsFd,
        key: &DerivedKey,
    ) -> Result<Option<BuildTurn>, DaemonError> {
        let connection = self.open()?;
        domain(&connection, header)?;
        match connection.ask(&Message::TakeTurn(BuildRequest::of(key)))? {
            Message::TurnTaken => Ok(Some(BuildTurn {
                _connection: connection,
            })),
            Message::IngestRefused(refusal) if refusal.reason == IngestReason::BUSY => Ok(None),
            Message::IngestRefused(refusal) => Err(DaemonError::Refused(refusal)),
            other => Err(unexpected("a turn", &other)),
        }
    }

    /// The models among `ids` that pods of the node declare warm, as of the daemon's last pass. None without a daemon, or with
    /// one too old for the question.
    ///
    /// # Errors
    ///
    /// Fails if a daemon is there and does not answer in time.
    pub fn declared_warm(
        &self,
        ids: &BTreeSet<ManifestId>,
    ) -> Result<BTreeSet<ManifestId>, DaemonError> {
        let connection = match self.open() {
            Err(error) if error.is_absent() => return Ok(BTreeSet::new()),
            opened => opened?,
        };
        let mut warm = BTreeSet::new();
        for id in ids {
            match connection.ask(&Message::AskWarm { manifest: *id }) {
                Ok(Message::Warm { warm: true }) => _ = warm.insert(*id),
                Ok(Message::Warm { warm: false }) => {}
                Ok(other) => return Err(unexpected("a declaration", &other)),
                Err(DaemonError::TooOld { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(warm)
    }

    fn open(&self) -> Result<DaemonConnection, DaemonError> {
        self.open_for(self.timeout)
    }

    /// Opens a connection whose answers may take as long as `timeout`.
    pub(super) fn open_for(&self, timeout: Duration) -> Result<DaemonConnection, DaemonError> {
        DaemonConnection::open(&self.socket, timeout)
    }
}

pub(super) fn domain(
    connection: &DaemonConnection,
    header: impl AsFd,
) -> Result<Option<TrustDomain>, DaemonError> {
    connection.pass(&Message::AskDomain, header.as_fd())?;
    match connection.message() {
        Ok(Message::Domain(domain)) => Ok(domain),
        Ok(Message::IngestRefused(refusal)) => Err(DaemonError::Refused(refusal)),
        // A daemon of before there were domains.
        Err(DaemonError::TooOld { .. }) => Ok(None),
        Ok(other) => Err(unexpected("a domain", &other)),
        Err(error) => Err(error),
    }
}

pub(super) fn unexpected(expected: &'static str, message: &Message) -> DaemonError {
    DaemonError::Unexpected {
        expected,
        kind: message.kind(),
    }
}

#[cfg(test)]
mod tests;
