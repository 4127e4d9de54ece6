//! The store that a pull fills: by itself, or through the node's daemon.

use std::time::Duration;

use tetris_agent::daemon::DaemonClient;
use tetris_agent::{NodePublishError, NodePublisher};
use tetris_loader::{MemoryFile, named};
use tetris_store_layout::{
    Access, DerivedKey, ObjectRef, PublishError, Published, SEGMENT_BYTES, SegmentDigest,
    SegmentHasher, SegmentWriter, Staging, Store, TrustDomain,
};

use crate::error::PullError;

/// Longest time between two messages of a daemon that restores a model.
const RESTORE_ANSWER: Duration = Duration::from_secs(30);
/// Most times that room is made for one object: another process may take it first.
const ROOM_ATTEMPTS: u32 = 16;

/// A store that a pull fills.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    pub(crate) store: &'a Store,
    /// Called when the store is full, with the number of bytes needed; true when some were freed.
    make_room: &'a (dyn Fn(u64) -> bool + Sync),
    pub(crate) publisher: Option<&'a NodePublisher<'a>>,
}

impl<'a> Destination<'a> {
    /// A store that this process writes. `make_room` is called when it is full, with the number of bytes needed, and
    /// returns true when some were freed.
    pub fn writable(store: &'a Store, make_room: &'a (dyn Fn(u64) -> bool + Sync)) -> Self {
        Self {
            store,
            make_room,
            publisher: None,
        }
    }

    /// The store that the node's daemon writes for this process.
    pub fn through(publisher: &'a NodePublisher<'a>) -> Self {
        Self {
            store: publisher.store(),
            make_room: &|_| false,
            publisher: Some(publisher),
        }
    }

    /// Trust domains whose records this process takes, its own first.
    pub(crate) fn domains(&self) -> Vec<TrustDomain> {
        self.publisher
            .map_or_else(|| vec![TrustDomain::Owner], NodePublisher::domains)
    }

    /// Has the node's daemon bring the model pulled from `source_name` back from its cold tier, if it has one. `progress` receives bytes
    /// read and of all bytes. Returns the number of bytes that came back.
    pub(crate) fn restore(&self, source_name: &str, progress: impl FnMut(u64, u64)) -> u64 {
        let of_store = DaemonClient::of_store(self.store, RESTORE_ANSWER);
        let client = self.publisher.map_or(&of_store, NodePublisher::client);
        let header = self.store.header_descriptor();
        match client.restore_model(header, source_name, progress) {
            Ok(restored) => restored.map_or(0, |model| model.bytes),
            Err(error) => {
                tracing::debug!(%error, "no daemon restores the model");
                0
            }
        }
    }

    /// Checks that this process can publish.
    pub(crate) fn require_writable(&self) -> Result<(), PullError> {
        if self.publisher.is_some() || self.store.is_writable() {
            return Ok(());
        }
        Err(PullError::ReadOnly {
            path: self.store.root().to_owned(),
        })
    }

    /// Begins an object of `len` bytes of the file at `address`.
    pub(crate) fn stage(&self, len: u64, address: &str) -> Result<Staged<'a>, PullError> {
        let Some(publisher) = self.publisher else {
            let staging = self.with_room(len, address, || self.store.stage(len))?;
            return Ok(Staged::Store(staging));
        };
        let memory = MemoryFile::new(len).map_err(memory_failed)?;
        Ok(Staged::Memory { memory, publisher })
    }

    /// Publishes bytes of the file at `address` as one object.
    pub(crate) fn publish(&self, bytes: &[u8], address: &str) -> Result<Published, PullError> {
        let Some(publisher) = self.publisher else {
            let publish = || self.store.publish(bytes, Access::ReadOnly);
            return self.with_room(bytes.len() as u64, address, publish);
        };
        let published = publisher.publish(ObjectRef::of(bytes), || MemoryFile::sealed(&[bytes]));
        published.map_err(|source| brokered(address, source))
    }

    /// Records that `key` derives to `object`, which the caller has mapped.
    pub(crate) fn record(
        &self,
        key: DerivedKey,
        object: ObjectRef,
        address: &str,
    ) -> Result<(), PullError> {
        match self.publisher {
            Some(publisher) => {
                let recorded = publisher.record(key, object);
                recorded.map_err(|source| brokered(address, source))
            }
            None => self.with_room(1, address, || self.store.record_derived(&key, object)),
        }
    }

    /// Publishes with `publish`, making room if the store is full.
    fn with_room<T>(
        &self,
        needed: u64,
        address: &str,
        publish: impl Fn() -> Result<T, PublishError>,
    ) -> Result<T, PullError> {
        let mut published = publish();
        for _ in 0..ROOM_ATTEMPTS {
            match &published {
                Err(error) if error.is_full() && (self.make_room)(needed) => published = publish(),
                _ => break,
            }
        }
        published.map_err(|source| match source {
            source if source.is_full() => PullError::Full {
                address: address.to_owned(),
                needed,
                source,
            },
            source => source.into(),
        })
    }
}

/// An object in the making.
pub(crate) enum Staged<'a> {
    /// In the store.
    Store(Staging<'a>),
    /// In memory, to be passed to the daemon.
    Memory {
        memory: MemoryFile,
        publisher: &'a NodePublisher<'a>,
    },
}

/// A segment of an object in the making.
pub(crate) enum StagedSegment<'s> {
    Store(SegmentWriter<'s>),
    Memory {
        memory: &'s MemoryFile,
        at: u64,
        hasher: SegmentHasher,
    },
}

impl Staged<'_> {
    /// Length of the object in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Store(staging) => staging.len(),
            Self::Memory { memory, .. } => memory.len(),
        }
    }

    /// A writer of segment `index`.
    pub(crate) fn segment(&self, index: u64) -> StagedSegment<'_> {
        match self {
            Self::Store(staging) => StagedSegment::Store(staging.segment(index)),
            Self::Memory { memory, .. } => StagedSegment::Memory {
                memory,
                at: index * SEGMENT_BYTES,
                hasher: SegmentHasher::new(memory.len(), index),
            },
        }
    }

    /// Publishes the object, whose segments have these digests. `address` is that of the file.
    pub(crate) fn commit(
        self,
        digests: &[SegmentDigest],
        address: &str,
    ) -> Result<Published, PullError> {
        match self {
            Self::Store(staging) => Ok(staging.commit(digests, Access::ReadOnly)?),
            Self::Memory { memory, publisher } => {
                let object = named(memory.len(), digests)?;
                let published = publisher.publish(object, || memory.seal());
                published.map_err(|source| brokered(address, source))
            }
        }
    }
}

impl StagedSegment<'_> {
    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), PullError> {
        match self {
            Self::Store(writer) => writer.write(bytes)?,
            Self::Memory { memory, at, hasher } => {
                hasher.update(bytes);
                memory.write_at(bytes, *at).map_err(memory_failed)?;
                *at += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Ends the segment.
    pub(crate) fn finish(self) -> SegmentDigest {
        match self {
            Self::Store(writer) => writer.finish(),
            Self::Memory { hasher, .. } => hasher.finish(),
        }
    }
}

fn memory_failed(source: std::io::Error) -> PullError {
    let action = "make memory for the node's daemon";
    PullError::Machine { action, source }
}

/// The error of the daemon about the file at `address`.
pub(crate) fn brokered(address: &str, source: NodePublishError) -> PullError {
    PullError::Daemon {
        address: address.to_owned(),
        source,
    }
}
