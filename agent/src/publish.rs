//! Publishing what is already in memory, and attaching objects by name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tetris_loader::threads;
use tetris_store_layout::{
    MapError, ObjectRef, PublishError, PublishOutcome, Published, SEGMENT_BYTES, SegmentDigest,
    SegmentHasher, SegmentWriter, Store, TensorId, combine, segment_count, segment_len,
};

use crate::agent::Agent;
use crate::detached::Region;
use crate::error::ShareError;
use crate::options::LoadOptions;
use crate::private_reason::no_store;

/// Bytes are copied out of the source in pieces of this length, which stay in a core's cache while they
/// are hashed and written.
const PIECE_BYTES: usize = 1 << 20;

/// Copies the bytes at an offset of the source into the buffer.
pub type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) + Sync);

impl Agent {
    /// The `len` bytes that `read_at` gives, as one object of the store: found there, or published.
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
fn digest(len: u64, read_at: ReadAt<'_>, threads: usize) -> Result<ObjectRef, PublishError> {
    let hash = |index| Sink::Hash(SegmentHasher::new(len, index));
    let segments = each_segment(len, read_at, threads, hash)?;
    let found = segments.iter().map(SegmentDigest::len).sum();
    let (id, crc) = combine(&segments).ok_or(PublishError::Length {
        expected: len,
        found,
    })?;
    Ok(ObjectRef { id, crc, len })
}

fn publish(
    store: &Store,
    len: u64,
    read_at: ReadAt<'_>,
    options: &LoadOptions,
) -> Result<Published, PublishError> {
    let staging = store.stage(len)?;
    let write = |index| Sink::Write(staging.segment(index));
    let segments = each_segment(len, read_at, options.thread_count(), write)?;
    staging.commit(&segments, options.access)
}

/// Takes the bytes of one segment, in order.
enum Sink<'s> {
    Hash(SegmentHasher),
    Write(SegmentWriter<'s>),
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), PublishError> {
        match self {
            Self::Hash(hasher) => {
                hasher.update(bytes);
                Ok(())
            }
            Self::Write(writer) => writer.write(bytes),
        }
    }

    fn finish(self) -> SegmentDigest {
        match self {
            Self::Hash(hasher) => hasher.finish(),
            Self::Write(writer) => writer.finish(),
        }
    }
}

/// Puts every segment into a sink of its own, over all threads. Returns their digests in order.
fn each_segment<'s>(
    len: u64,
    read_at: ReadAt<'_>,
    threads: usize,
    sink: impl Fn(u64) -> Sink<'s> + Sync,
) -> Result<Vec<SegmentDigest>, PublishError> {
    let segments = segment_count(len);
    let next = AtomicU64::new(0);
    let digests = Mutex::new(Vec::new());
    threads::run(threads.min(segments as usize), || {
        let mut piece = vec![0; PIECE_BYTES.min(len as usize)];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= segments {
                return Ok::<(), PublishError>(());
            }
            let mut sink = sink(index);
            let mut at = index * SEGMENT_BYTES;
            let end = at + segment_len(len, index);
            while at < end {
                let wanted = (end - at).min(PIECE_BYTES as u64) as usize;
                let piece = piece.get_mut(..wanted).unwrap_or_default();
                read_at(at, piece);
                sink.take(piece)?;
                at += wanted as u64;
            }
            let mut digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
            digests.push((index, sink.finish()));
        }
    })?;
    let mut digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    digests.sort_unstable_by_key(|&(index, _)| index);
    Ok(digests.into_iter().map(|(_, digest)| digest).collect())
}
