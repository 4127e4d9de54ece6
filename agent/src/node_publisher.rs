//! Publishing in a store that this process can only read, by the node's daemon.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tetris_loader::MemoryFile;
use tetris_store_layout::{
    Access, DerivedKey, Manifest, ManifestId, MapError, ObjectRef, PublishOutcome, Published,
    Store, TrustDomain,
};
use tetris_wire::daemon::{IngestReason, IngestRefusal};

use crate::agent::Agent;
use crate::daemon::{DaemonClient, DaemonError};
use crate::options::LoadOptions;

/// Most times that memory is passed: its object may be reclaimed before it is mapped.
const ATTEMPTS: u32 = 3;

/// Content that the node's daemon did not publish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodePublishError {
    /// The daemon refuses, or cannot be asked.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The memory to pass cannot be made.
    #[error("cannot make memory for the node's daemon: {0}")]
    Memory(#[from] io::Error),
    /// The published object cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The published object was reclaimed each time before it was mapped.
    #[error("the object was reclaimed before it was mapped, {ATTEMPTS} times; the store is full")]
    Reclaimed,
    /// The daemon keeps no records by this process's word.
    #[error(
        "this process has no trust domain, so no one would take its word for a record (LAYOUT.md 4)"
    )]
    NoDomain,
}

impl NodePublishError {
    /// Returns true if the store has no room, or none that this process may take.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Reclaimed => true,
            Self::Daemon(DaemonError::Refused(IngestRefusal { reason, .. })) => [
                IngestReason::NO_ROOM,
                IngestReason::LIMIT,
                IngestReason::POLICY,
            ]
            .contains(reason),
            _ => false,
        }
    }
}

/// A client of the node's daemon that publishes parts of files.
#[derive(Debug)]
pub struct NodePublisher<'a> {
    store: &'a Store,
    client: DaemonClient,
    domain: Option<TrustDomain>,
}

impl Agent {
    /// The publisher for a store that this process can only read, if a daemon answers there. `None` for a writable one.
    pub fn node_publisher(&self, options: &LoadOptions) -> Option<NodePublisher<'_>> {
        let store = self.store().filter(|store| !store.is_writable())?;
        let client = DaemonClient::of_store(store, options.broker_timeout);
        if let Err(error) = client.version() {
            tracing::debug!(%error, "no daemon publishes for this process");
            return None;
        }
        let domain = self.trust_domain(store, options.broker_timeout);
        Some(NodePublisher {
            store,
            client,
            domain,
        })
    }
}

impl NodePublisher<'_> {
    /// The store.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Trust domains whose records this process takes: first that of its records, if they count anywhere.
    pub fn domains(&self) -> Vec<TrustDomain> {
        self.domain
            .into_iter()
            .chain([TrustDomain::Owner])
            .collect()
    }

    /// The object, mapped: as it is in the store, or published from the sealed memory that `memory` makes.
    ///
    /// # Errors
    /// When the daemon refuses, or the object cannot be mapped.
    pub fn publish(
        &self,
        object: ObjectRef,
        memory: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<Published, NodePublishError> {
        if let Some(mapping) = self.store.map(&object, Access::ReadOnly)? {
            return Ok(Published {
                object,
                outcome: PublishOutcome::Existing,
                mapping,
            });
        }
        let memory = memory()?;
        for _ in 0..ATTEMPTS {
            let published = self.client.publish_memory(memory.as_fd(), object)?;
            if let Some(published) = published.map(self.store, Access::ReadOnly)? {
                return Ok(published);
            }
        }
        Err(NodePublishError::Reclaimed)
    }

    /// Publishes the manifest of a file, whose objects are in the store and mapped here, and binds `sha256` to it. `header` has
    /// the file's first bytes; none for a file kept whole.
    ///
    /// # Errors
    /// When the daemon refuses: the manifest is not true, or the file has another digest.
    pub fn assemble(
        &self,
        manifest: &Manifest,
        header: &[u8],
        sha256: Option<[u8; 32]>,
    ) -> Result<ManifestId, NodePublishError> {
        let encoded = manifest.encode();
        let memory = MemoryFile::sealed(&[&encoded, header])?;
        let len = encoded.len() as u64;
        let assembled = self
            .client
            .assemble(memory.as_fd(), len, sha256, |_, _| {})?;
        let id = assembled.content;
        assembled.done();
        Ok(id)
    }

    /// The client of the daemon.
    pub fn client(&self) -> &DaemonClient {
        &self.client
    }

    /// Records by the word of this process that `key` derives to `object`.
    ///
    /// # Errors
    /// When this process has no domain, or the daemon refuses.
    pub fn record(&self, key: DerivedKey, object: ObjectRef) -> Result<(), NodePublishError> {
        let domain = self.domain.ok_or(NodePublishError::NoDomain)?;
        let header = self.store.header_descriptor();
        let key = key.in_domain(domain);
        Ok(self.client.record_derived(header, &key, object)?)
    }
}
