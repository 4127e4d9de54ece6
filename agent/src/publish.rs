//! Publishing what is already in memory, and attaching objects by name.

use std::sync::Arc;

use tetris_loader::{SegmentSink, each_segment, object_of};
use tetris_store_layout::{
    MapError, ObjectRef, PublishError, PublishOutcome, Published, Store, TensorId,
};

use crate::agent::Agent;
use crate::detached::Region;
use crate::error::ShareError;
use crate::options::LoadOptions;
use crate::private_reason::no_store;
use crate::read_at::ReadAt;

impl Agent {
    /// The `len` bytes that `read_at` gives, as one object of the store: found there, or published.
    ///
    /// Where this process can only read the store, the node's daemon publishes them: they are copied
    /// into memory that it reads.
    ///
    /// The bytes may be those of a tensor that other threads write to meanwhile: what is hashed is the very
    /// buffer that is written (INV-1), so an object's name is true in any case.
    ///
    /// # Errors
    /// Why the store cannot hold the bytes; the caller has them and keeps them.
    pub fn publish(
        &self,
        len: u64,
        read_at: ReadAt<'_>,
        options: &LoadOptions,
    ) -> Result<Arc<Region>, ShareError> {
        let store = self.store().ok_or_else(|| ShareError::NoStore {
            reason: no_store(self.unavailable_store()),
        })?;
        let threads = options.thread_count();
        let object = digest(len, read_at, threads)?;
        if let Ok(Some(mapping)) = store.map(&object, options.access) {
            let region = Region::of_mapping(mapping, object, PublishOutcome::Existing);
            return Ok(Arc::new(region));
        }
        let context = self.load_context(options);
        if !store.is_writable() {
            let published = context.publish_brokered(store, object, read_at);
            let published = published.map_err(|reason| ShareError::Private {
                cause: reason.cause,
                reason: reason.text,
            })?;
            let region = Region::of_mapping(published.mapping, object, published.outcome);
            return Ok(Arc::new(region));
        }
        let publish = || publish(store, len, read_at, options);
        let published = match publish() {
            Err(error) if error.is_full() && context.make_room(len) => publish(),
            published => published,
        }?;
        let region = Region::of_mapping(published.mapping, published.object, published.outcome);
        Ok(Arc::new(region))
    }

    /// The object with this file name, mapped; `None` when it is not in the store.
    ///
    /// # Errors
    /// As [`Store::map`].
    pub fn attach(
        &self,
        file_name: &str,
        options: &LoadOptions,
    ) -> Result<Option<Arc<Region>>, MapError> {
        let Some((store, object)) = self
            .store()
            .and_then(|store| Some((store, store.find(file_name)?)))
        else {
            return Ok(None);
        };
        let mapping = store.map(&object, options.access)?;
        Ok(mapping.map(|mapping| {
            Arc::new(Region::of_mapping(
                mapping,
                object,
                PublishOutcome::Existing,
            ))
        }))
    }
}

/// The id of the `len` bytes that `read_at` gives, computed over all cores.
pub fn content_id(
    len: u64,
    read_at: ReadAt<'_>,
    options: &LoadOptions,
) -> Result<TensorId, PublishError> {
    let object = digest(len, read_at, options.thread_count())?;
    Ok(TensorId(object.id.0))
}

/// The object's name, from its bytes.
pub(crate) fn digest(
    len: u64,
    read_at: ReadAt<'_>,
    threads: usize,
) -> Result<ObjectRef, PublishError> {
    object_of(len, &infallible(read_at), threads)
}

/// The source, for functions that take one which may fail.
fn infallible(read_at: ReadAt<'_>) -> impl Fn(u64, &mut [u8]) -> Result<(), PublishError> + Sync {
    move |at, buffer| {
        read_at(at, buffer);
        Ok(())
    }
}

fn publish(
    store: &Store,
    len: u64,
    read_at: ReadAt<'_>,
    options: &LoadOptions,
) -> Result<Published, PublishError> {
    let staging = store.stage(len)?;
    let write = |index| SegmentSink::Write(staging.segment(index));
    let source = infallible(read_at);
    let segments = each_segment(len, &source, options.thread_count(), write)?;
    staging.commit(&segments, options.access)
}
