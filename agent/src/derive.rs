//! Derived objects: what a framework makes of a tensor and would otherwise keep privately.

use std::ops::Deref;
use std::sync::Arc;

use tetris_loader::{PrivateBytes, PrivateCause};
use tetris_store_layout::{
    DecodeError, DeriveError, DerivedKey, PublishError, PublishOutcome, Published, Store, TensorId,
};

use crate::agent::Agent;
use crate::daemon::DaemonClient;
use crate::detached::Region;
use crate::load::LoadContext;
use crate::options::LoadOptions;
use crate::origin::Origin;
use crate::private_reason::PrivateReason;
use crate::publish::digest;
use crate::read_at::{ReadAt, of_bytes};

/// The result of a transform: shared where the store can hold it. Dropping it drops the reference.
#[derive(Debug)]
pub struct Derived {
    memory: Memory,
    private: Option<PrivateReason>,
}

#[derive(Debug)]
enum Memory {
    Store(Published),
    Private(PrivateBytes),
    /// As the transform returned it: there was no memory for an aligned copy.
    Plain(Vec<u8>),
}

impl Agent {
    /// The bytes that `transform` in its `version` makes of the tensor with the id `source`: mapped
    /// from the store if any process of the node has made them before, and made by `make` otherwise.
    ///
    /// `transform` names the operation with its parameters (`cast f32->bf16`), with dtype and shape
    /// where they matter to it. `make` runs at most once.
    ///
    /// A process that can only read the store has the node's daemon publish the bytes and record the
    /// derivation. Only its trust domain finds that record; others make the bytes, and share them.
    ///
    /// # Errors
    /// What `make` returns, and a name that is longer than the store can record. What the store cannot
    /// hold is returned in private memory, and [`Derived::private_reason`] gives the reason.
    pub fn derive<E>(
        &self,
        source: TensorId,
        transform: &str,
        version: u32,
        options: &LoadOptions,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Result<Derived, E>, DecodeError> {
        let key = DerivedKey::new(source, transform, version)?;
        let Some(store) = self.store() else {
            let unavailable = self.unavailable_store();
            let reason = PrivateReason::without_store(unavailable);
            return Ok(make().map(|bytes| Derived::private(bytes, reason)));
        };
        let context = self.load_context(options);
        if !store.is_writable() {
            return Ok(self.derive_brokered(&context, store, key, make));
        }
        let private = |error: &PublishError, bytes: Vec<u8>| {
            let (refused, len) = (
                Some(PrivateReason::of_publish(error, store)),
                bytes.len() as u64,
            );
            Derived::private(bytes, context.private_reason(refused, len, len))
        };
        let mut result = store.get_or_create(&key, options.access, options.wait, make);
        if let Err(DeriveError::Publish(error, bytes)) = result {
            if !error.is_full() || !context.make_room(bytes.len() as u64) {
                return Ok(Ok(private(&error, bytes)));
            }
            result = store.get_or_create(&key, options.access, options.wait, || Ok(bytes));
        }
        Ok(match result {
            Ok(published) => Ok(Derived::shared(published)),
            Err(DeriveError::Publish(error, bytes)) => Ok(private(&error, bytes)),
            Err(DeriveError::Make(error)) => Err(error),
        })
    }
}

impl Agent {
    /// Derives where this process can only read the store: finds a record of a domain whose word it
    /// takes, or makes the bytes and has the daemon publish and record them.
    fn derive_brokered<E>(
        &self,
        context: &LoadContext<'_>,
        store: &Store,
        key: DerivedKey,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Derived, E> {
        let options = context.options();
        if let Ok(Some(found)) = store.derived(&key, options.access) {
            return Ok(Derived::shared(found));
        }
        let domain = context.asks_broker(store);
        let domain = domain.then(|| self.trust_domain(store, options.broker_timeout));
        let key = domain.flatten().map(|domain| key.in_domain(domain));
        if let Some(key) = &key
            && let Ok(Some(found)) = store.derived(key, options.access)
        {
            return Ok(Derived::shared(found));
        }
        let derived = publish_made(context, store, make()?);
        if let (Some(key), Memory::Store(published)) = (&key, &derived.memory) {
            let daemon = DaemonClient::of_store(store, options.broker_timeout);
            let (header, object) = (store.header_descriptor(), published.object);
            if let Err(error) = daemon.record_derived(header, key, object) {
                // The next process makes the same bytes, and shares this memory.
                tracing::debug!(%error, "the node's daemon did not record a derived tensor");
            }
        }
        Ok(derived)
    }
}

/// Has the daemon publish bytes that this process made.
fn publish_made(context: &LoadContext<'_>, store: &Store, bytes: Vec<u8>) -> Derived {
    let options = context.options();
    let len = bytes.len() as u64;
    let published = publish_brokered(context, store, len, &of_bytes(&bytes), options);
    match published {
        Ok(published) => Derived::shared(published),
        Err(reason) => Derived::private(bytes, reason),
    }
}

fn publish_brokered(
    context: &LoadContext<'_>,
    store: &Store,
    len: u64,
    read_at: ReadAt<'_>,
    options: &LoadOptions,
) -> Result<Published, PrivateReason> {
    let object = digest(len, read_at, options.thread_count());
    let object = object.map_err(|error| PrivateReason::of_publish(&error, store))?;
    if let Ok(Some(mapping)) = store.map(&object, options.access) {
        return Ok(Published {
            object,
            outcome: PublishOutcome::Existing,
            mapping,
        });
    }
    context.publish_brokered(store, object, read_at)
}

impl Derived {
    fn shared(published: Published) -> Self {
        Self {
            memory: Memory::Store(published),
            private: None,
        }
    }

    fn private(bytes: Vec<u8>, reason: PrivateReason) -> Self {
        let memory = match PrivateBytes::zeroed(bytes.len() as u64) {
            Some(mut aligned) => {
                aligned.as_mut_slice().copy_from_slice(&bytes);
                Memory::Private(aligned)
            }
            None => Memory::Plain(bytes),
        };
        Self {
            memory,
            private: Some(reason),
        }
    }

    /// Origin of the bytes.
    pub fn origin(&self) -> Origin {
        match &self.memory {
            Memory::Store(published) => published.outcome.into(),
            Memory::Private(_) | Memory::Plain(_) => Origin::Private,
        }
    }

    /// The reason that the bytes are private, if they are.
    pub fn private_reason(&self) -> Option<&str> {
        Some(&self.private.as_ref()?.text)
    }

    /// The cause of that reason.
    pub fn private_cause(&self) -> Option<PrivateCause> {
        Some(self.private.as_ref()?.cause)
    }

    /// The memory alone, for foreign code.
    pub fn detach(self) -> Arc<Region> {
        Arc::new(match self.memory {
            Memory::Store(published) => {
                Region::of_mapping(published.mapping, published.object, published.outcome)
            }
            Memory::Private(bytes) => Region::of_private(bytes),
            Memory::Plain(bytes) => Region::of_bytes(bytes),
        })
    }

    /// The bytes for writing; `None` when they are mapped read-only.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            Memory::Store(published) => published.mapping.as_mut_slice(),
            Memory::Private(bytes) => Some(bytes.as_mut_slice()),
            Memory::Plain(bytes) => Some(bytes),
        }
    }
}

impl Deref for Derived {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Store(published) => &published.mapping,
            Memory::Private(bytes) => bytes.as_slice(),
            Memory::Plain(bytes) => bytes,
        }
    }
}
