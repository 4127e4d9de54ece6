//! A held model: the client gets its chunks and the arrivals in them.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::{Ended, Session};
use crate::server::core::Core;
use crate::server::mailbox::Post;
use crate::server::object_limit::ObjectPermit;
use crate::server::state::{Chunks, Held};
use tetris_gpu_device::{DeviceMemory, Exported, MemoryError};
use tetris_gpu_protocol::{
    MAX_CHUNKS_PER_MESSAGE, MAX_NUMBERS_PER_MESSAGE, MAX_PLACES_PER_MESSAGE, PlaceEntry, Reason,
    Reply, Request,
};

/// A model held until this value is dropped.
pub(super) struct Lease<D: DeviceMemory> {
    core: Arc<Core<D>>,
    held: Held,
    /// Permit for its objects.
    _permit: Option<ObjectPermit>,
}

impl<D: DeviceMemory> Lease<D> {
    pub fn new(core: &Arc<Core<D>>, held: Held, permit: Option<ObjectPermit>) -> Self {
        Self {
            core: Arc::clone(core),
            held,
            _permit: permit,
        }
    }

    /// The model.
    pub fn held(&self) -> &Held {
        &self.held
    }
}

impl<D: DeviceMemory> Drop for Lease<D> {
    fn drop(&mut self) {
        self.core.end(self.held.client);
    }
}

impl<D: DeviceMemory> Session<D> {
    /// Passes the model to the client, and reports arrivals until the client releases it.
    pub(super) fn serve(&self, lease: Lease<D>) -> Result<(), Ended> {
        let last = self.hand_out(&lease.held)?;
        // Ended before the client is notified.
        drop(lease);
        self.reply(&last)
    }

    /// Passes the chunks and reports arrivals. Returns the last message to the client.
    fn hand_out(&self, held: &Held) -> Result<Reply, Ended> {
        let mut news = Post::default();
        let Some(chunks) = self.chunks(held, &mut news)? else {
            return Ok(end(news));
        };
        self.reply(&Reply::Granted {
            device: held.device,
            chunks: chunks.list.len() as u32,
            objects: held.places.len() as u32,
            copy_bytes: held.copy_bytes,
        })?;
        for batch in chunks.list.chunks(MAX_CHUNKS_PER_MESSAGE) {
            if let Err(error) = self.pass(&*chunks.device, batch)? {
                news.failed = Some((Reason::COPY_FAILED, error.to_string()));
                return Ok(end(news));
            }
        }
        drop(chunks);
        self.tell_places(held)?;
        self.tell_arrivals(held, news)
    }

    /// Waits for the chunks. `None`: they will not exist, or the client no longer waits.
    fn chunks(&self, held: &Held, news: &mut Post) -> Result<Option<Chunks<D>>, Ended> {
        loop {
            let post = self.mailbox.take();
            news.arrived.extend(post.arrived);
            news.complete |= post.complete;
            if post.failed.is_some() {
                news.failed = post.failed;
                return Ok(None);
            }
            let chunks = self.core.state().chunks(held.client, &self.importer);
            if chunks.is_some() {
                return Ok(chunks);
            }
            let until = Instant::now() + self.core.limits().keepalive;
            match self.listen(Some(until))? {
                None if Instant::now() >= until => {
                    if let Some(why) = self.core.state().hung(held.client) {
                        news.failed = Some((Reason::COPY_FAILED, why));
                        return Ok(None);
                    }
                    // The client is in turn.
                    self.reply(&Reply::Waiting {
                        need_bytes: 0,
                        free_bytes: 0,
                    })?;
                }
                None => {}
                Some(Request::Release) => return Ok(None),
                Some(_) => {
                    let expected = "Release, or nothing, before the model is granted";
                    return Err(Ended::OutOfTurn { expected });
                }
            }
        }
    }

    /// Passes some chunks and waits until the client has them, so that few descriptors are in
    /// flight at any time.
    fn pass(
        &self,
        device: &D,
        batch: &[(Arc<D::Chunk>, u64)],
    ) -> Result<Result<(), MemoryError>, Ended> {
        let (mut lengths, mut files, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for (chunk, bytes) in batch {
            match device.export(chunk) {
                Ok(Exported::Descriptor(file)) => files.push(file),
                Ok(Exported::Handle(handle)) => handles.push((*bytes, handle)),
                Err(error) => return Ok(Err(error)),
            }
            lengths.push(*bytes);
        }
        self.core.metrics.chunks_exported.add(batch.len() as u64);
        if files.is_empty() {
            self.reply(&Reply::Handles(handles))?;
        } else {
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            let frame = Reply::Chunks(lengths).encode();
            self.connection.send_with(&frame, &files, self.deadline())?;
        }
        drop(files);
        match self.request()? {
            Request::Taken => Ok(Ok(())),
            _ => Err(Ended::OutOfTurn { expected: "Taken" }),
        }
    }

    fn tell_places(&self, held: &Held) -> Result<(), Ended> {
        let number = (0u32..).zip(&held.chunks).map(|(at, chunk)| (*chunk, at));
        let numbers: BTreeMap<_, _> = number.collect();
        for part in held.places.chunks(MAX_PLACES_PER_MESSAGE) {
            let entry = |(object, place): &(_, crate::arena::ObjectPlace)| {
                let chunk = numbers.get(&place.chunk).copied()?;
                Some(PlaceEntry {
                    object: *object,
                    chunk,
                    offset: place.offset,
                    len: place.len,
                })
            };
            let places = {
                let _turn = self.tenant.turn();
                Reply::Places(part.iter().filter_map(entry).collect()).encode()
            };
            self.connection.send(&places, self.deadline())?;
        }
        Ok(())
    }

    /// Reports arrivals, until the client releases the model or it fails.
    fn tell_arrivals(&self, held: &Held, mut news: Post) -> Result<Reply, Ended> {
        loop {
            if news.failed.is_some() {
                return Ok(end(news));
            }
            for part in news.arrived.chunks(MAX_NUMBERS_PER_MESSAGE) {
                self.reply(&Reply::Arrived(part.to_vec()))?;
            }
            if news.complete {
                self.reply(&Reply::Complete)?;
            }
            match self.listen(None)? {
                None => {}
                Some(Request::Release) => return Ok(Reply::Released),
                Some(Request::Status) => self.reply(&self.status())?,
                Some(Request::Keep {
                    ttft_us,
                    most_bytes,
                }) => {
                    let (tenant, pool) = (self.tenant.id, &self.tenant.pool);
                    let kept = self.core.keep(tenant, pool, held, ttft_us, most_bytes);
                    self.reply(&Reply::Kept(kept))?;
                }
                Some(_) => {
                    let expected = "Release, Status or Keep while a model is held";
                    return Err(Ended::OutOfTurn { expected });
                }
            }
            news = self.mailbox.take();
        }
    }
}

/// The last message of a lease: its failure, or the client's release.
fn end(news: Post) -> Reply {
    match news.failed {
        Some((reason, text)) => Reply::Failed { reason, text },
        None => Reply::Released,
    }
}
