//! Objects of the store from ranges of a file: many ranges at once, each hashed and written as it comes.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tetris_loader::{Job, threads};
use tetris_store_layout::{
    ObjectRef, Published, SEGMENT_BYTES, SegmentDigest, segment_count, segment_len,
};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::destination::{Destination, Staged, StagedSegment};
use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::journal::Journal;
use crate::listing::RemoteFile;
use crate::memory::FetchedParts;
use crate::options::PullOptions;

/// Segments of an object that one request brings: 32 MiB. Shorter ranges wait for the first byte more often
/// than for the others; longer ones leave connections idle at the end.
const SEGMENTS: u64 = 8;
/// Bytes written at a time: a huge page, which the kernel zeroes first where it is written in parts. Measured: that
/// took most of a pull's processor time.
const PIECE: u64 = 2 << 20;
/// The parts that fetching objects needs.
pub(crate) struct ObjectFetch<'a> {
    pub(crate) fetcher: &'a Fetcher<'a>,
    pub(crate) destination: Destination<'a>,
    pub(crate) file: &'a RemoteFile,
    pub(crate) runtime: &'a Handle,
    pub(crate) options: &'a PullOptions,
    /// First bytes of the file, which are in memory.
    pub(crate) front: &'a [u8],
    /// Notes of objects that no manifest names yet.
    pub(crate) journal: Option<&'a Journal<'a>>,
}

/// An object to be made.
pub(crate) struct WantedObject<'a> {
    pub(crate) job: &'a Job,
    /// The object's name, where a manifest has it.
    pub(crate) expected: Option<ObjectRef>,
}

/// The reason that objects were not made.
#[derive(Debug)]
pub(crate) enum ObjectsError {
    /// The bytes of a range are not those of the manifest.
    Mismatch,
    /// The pull fails.
    Pull(PullError),
}

impl<E: Into<PullError>> From<E> for ObjectsError {
    fn from(error: E) -> Self {
        Self::Pull(error.into())
    }
}

/// Segments of an object that one request brings.
struct Task {
    object: usize,
    segments: Range<u64>,
}

/// An object in the making.
#[derive(Default)]
struct Making<'a> {
    staging: Option<Arc<Staged<'a>>>,
    digests: Vec<Option<SegmentDigest>>,
    /// Memory of the segments begun so far.
    memory: Vec<OwnedSemaphorePermit>,
    published: Option<Published>,
}

/// Segments being written, in order.
pub(crate) struct Writing<'w, 'a> {
    staging: &'w Staged<'a>,
    /// Segments left; the first is being written.
    segments: Range<u64>,
    writer: Option<StagedSegment<'w>>,
    /// Bytes of the segment not written yet, less than a piece.
    piece: Vec<u8>,
    /// Bytes of the segment left, those of the piece included.
    left: u64,
    digests: Vec<SegmentDigest>,
}

impl<'w, 'a> Writing<'w, 'a> {
    pub(crate) fn new(staging: &'w Staged<'a>, segments: Range<u64>) -> Self {
        let mut writing = Self {
            staging,
            segments,
            writer: None,
            piece: Vec::with_capacity(staging.len().min(PIECE) as usize),
            left: 0,
            digests: Vec::new(),
        };
        writing.begin();
        writing
    }

    fn begin(&mut self) {
        if let Some(segment) = self.segments.clone().next() {
            self.left = segment_len(self.staging.len(), segment);
            self.writer = Some(self.staging.segment(segment));
        }
    }

    /// The digests of the segments, all of whose bytes were taken.
    pub(crate) fn into_digests(self) -> Vec<SegmentDigest> {
        self.digests
    }

    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), PullError> {
        while let (false, Some(writer)) = (bytes.is_empty(), &mut self.writer) {
            let room = self.left.min(PIECE) as usize - self.piece.len();
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.piece.extend_from_slice(now);
            bytes = later;
            if now.len() < room {
                break;
            }
            writer.write(&self.piece)?;
            self.left -= self.piece.len() as u64;
            self.piece.clear();
            if self.left == 0 {
                self.digests
                    .extend(self.writer.take().map(StagedSegment::finish));
                self.segments.next();
                self.begin();
            }
        }
        Ok(())
    }
}

impl<'a> ObjectFetch<'a> {
    /// Makes all of `wanted`, and returns them in their order, mapped.
    pub(crate) fn run(&self, wanted: &[WantedObject<'_>]) -> Result<Vec<Published>, ObjectsError> {
        let mut making: Vec<Mutex<Making<'a>>> = Vec::new();
        making.resize_with(wanted.len(), Mutex::default);
        let tasks: Vec<Task> = wanted
            .iter()
            .enumerate()
            .flat_map(|(object, wanted)| {
                let count = segment_count(wanted.job.len());
                // A pack is made at once: its tensors lie anywhere in the file.
                let step = wanted.job.run_at().map_or(count, |_| SEGMENTS).max(1);
                (0..count.max(1))
                    .step_by(step as usize)
                    .map(move |first| Task {
                        object,
                        segments: first..(first + step).min(count),
                    })
            })
            .collect();
        let sweep = Sweep {
            fetch: self,
            wanted,
            making: &making,
            tasks: &tasks,
            memory: Arc::new(Semaphore::new(self.most_segments(wanted))),
            next: AtomicUsize::new(0),
        };
        let threads = self.options.threads.get().min(tasks.len()).max(1);
        let per_thread = self.options.connections.get().div_ceil(threads);
        threads::run(threads, || self.runtime.block_on(sweep.work(per_thread)))?;
        let published = making.into_iter().map(|making| {
            let making = making.into_inner().unwrap_or_else(PoisonError::into_inner);
            making.published
        });
        published.collect::<Option<_>>().ok_or_else(|| {
            let source = std::io::Error::other("an object was not made (this is a bug)");
            let action = "fetch";
            PullError::Machine { action, source }.into()
        })
    }

    /// Segments of unpublished objects at a time: those of all connections, and the largest object twice, so that the
    /// first of the unpublished ones can always be completed.
    fn most_segments(&self, wanted: &[WantedObject<'_>]) -> usize {
        let largest = wanted.iter().map(|wanted| segment_count(wanted.job.len()));
        let running = self.options.connections.get() as u64 * SEGMENTS;
        let segments = running.saturating_add(2 * largest.max().unwrap_or_default());
        let most = usize::try_from(segments).unwrap_or(usize::MAX);
        most.min(Semaphore::MAX_PERMITS)
    }
}

/// Units of the limit of unpublished segments that one task takes.
fn units(segments: &Range<u64>) -> u32 {
    u32::try_from(segments.end - segments.start).unwrap_or(u32::MAX)
}

/// The work of all threads on some objects.
struct Sweep<'s, 'a> {
    fetch: &'s ObjectFetch<'a>,
    wanted: &'s [WantedObject<'s>],
    making: &'s [Mutex<Making<'a>>],
    tasks: &'s [Task],
    /// Segments that may have begun in unpublished objects. Closed when a task fails, so that none waits for it.
    memory: Arc<Semaphore>,
    next: AtomicUsize,
}

impl<'a> Sweep<'_, 'a> {
    /// Takes tasks, `most` at a time, until none is left.
    async fn work(&self, most: usize) -> Result<(), ObjectsError> {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < most && !self.memory.is_closed() {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                let Some(task) = self.tasks.get(next) else {
                    break;
                };
                running.push(self.run(task));
            }
            match running.next().await {
                None => return Ok(()),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.memory.close();
                    return Err(error);
                }
            }
        }
    }

    async fn run(&self, task: &Task) -> Result<(), ObjectsError> {
        let (Some(wanted), Some(making)) =
            (self.wanted.get(task.object), self.making.get(task.object))
        else {
            return Ok(());
        };
        match wanted.job.run_at() {
            Some(at) => self.run_of_file(task, wanted, making, at).await,
            None => self.pack(wanted, making).await,
        }
    }

    /// Fetches segments of an object that one run of the file makes.
    async fn run_of_file(
        &self,
        task: &Task,
        wanted: &WantedObject<'_>,
        making: &Mutex<Making<'a>>,
        at: u64,
    ) -> Result<(), ObjectsError> {
        let len = wanted.job.len();
        let units = units(&task.segments);
        let Ok(memory) = Arc::clone(&self.memory).acquire_many_owned(units).await else {
            // Another task has failed, whose error is the pull's.
            return Ok(());
        };
        lock(making).memory.push(memory);
        let staging = self.staging(making, len)?;
        let end = (task.segments.end * SEGMENT_BYTES).min(len);
        let range = at + task.segments.start * SEGMENT_BYTES..at + end;
        let mut writing = Writing::new(&staging, task.segments.clone());
        let mut take = |bytes: &[u8]| {
            self.fetch.fetcher.count_done(bytes.len() as u64);
            writing.take(bytes)
        };
        let len_of_front = self.fetch.front.len() as u64;
        let known = range.start.min(len_of_front)..range.end.min(len_of_front);
        let known = known.start as usize..known.end as usize;
        let known = self.fetch.front.get(known).unwrap_or_default();
        take(known)?;
        let rest = range.start + known.len() as u64..range.end;
        let fetcher = self.fetch.fetcher;
        fetcher.each(self.fetch.file, rest, &mut take).await?;
        let digests = writing.into_digests();
        self.end(task, wanted, making, (staging, digests), at)
    }

    /// The staged object, which the first of its tasks makes.
    fn staging(&self, making: &Mutex<Making<'a>>, len: u64) -> Result<Arc<Staged<'a>>, PullError> {
        let mut making = lock(making);
        if let Some(staging) = &making.staging {
            return Ok(Arc::clone(staging));
        }
        let fetch = self.fetch;
        let staging = Arc::new(fetch.destination.stage(len, &fetch.file.address)?);
        making.staging = Some(Arc::clone(&staging));
        making.digests = vec![None; segment_count(len) as usize];
        Ok(staging)
    }

    /// Keeps the digests of a task's segments; with the last ones, publishes the object.
    fn end(
        &self,
        task: &Task,
        wanted: &WantedObject<'_>,
        making: &Mutex<Making<'a>>,
        (staging, digests): (Arc<Staged<'a>>, Vec<SegmentDigest>),
        at: u64,
    ) -> Result<(), ObjectsError> {
        let mut making = lock(making);
        for (index, digest) in task.segments.clone().zip(digests) {
            if let Some(place) = making.digests.get_mut(index as usize) {
                *place = Some(digest);
            }
        }
        // Under the lock: with the last digests, the object's own reference is the only one.
        drop(staging);
        if making.digests.iter().any(Option::is_none) {
            return Ok(());
        }
        let digests: Vec<_> = making.digests.iter().flatten().cloned().collect();
        let Some(staging) = making.staging.take().and_then(Arc::into_inner) else {
            return Ok(());
        };
        let published = staging.commit(&digests, &self.fetch.file.address)?;
        making.memory.clear();
        check(&published, wanted)?;
        if let Some(journal) = self.fetch.journal {
            journal.note(at, published.object);
        }
        making.published = Some(published);
        Ok(())
    }

    /// Makes a pack of small tensors.
    async fn pack(
        &self,
        wanted: &WantedObject<'_>,
        making: &Mutex<Making<'a>>,
    ) -> Result<(), ObjectsError> {
        let (fetch, job) = (self.fetch, wanted.job);
        let mut ranges: Vec<_> = job.unread().collect();
        ranges.sort_by_key(|range| range.start);
        let parts = fetch.fetcher.parts(fetch.file, ranges).await?;
        let more = |_| {
            let source =
                std::io::Error::other("a tensor of a pack was not fetched (this is a bug)");
            let action = "fetch";
            Err(PullError::Machine { action, source })
        };
        let parts = FetchedParts::new(&fetch.file.address, parts, &more);
        let mut bytes = vec![0; job.len() as usize];
        job.read(&parts, 0, &mut bytes)
            .map_err(|failure| changed(failure, fetch.file))?;
        let published = fetch.destination.publish(&bytes, &fetch.file.address)?;
        check(&published, wanted)?;
        fetch.fetcher.count_done(job.len());
        lock(making).published = Some(published);
        Ok(())
    }
}

/// Checks that an object is the one that the manifest names.
fn check(published: &Published, wanted: &WantedObject<'_>) -> Result<(), ObjectsError> {
    match wanted.expected {
        Some(expected) if expected != published.object => Err(ObjectsError::Mismatch),
        _ => Ok(()),
    }
}

/// The error of reading parts in memory.
pub(crate) fn changed(failure: tetris_loader::LoadFailure, file: &RemoteFile) -> PullError {
    match failure {
        tetris_loader::LoadFailure::Load(error) => error.into(),
        tetris_loader::LoadFailure::Changed => PullError::Changed {
            address: file.address.clone(),
            expected: format!("{} bytes", file.size),
            found: "fewer".to_owned(),
        },
    }
}

fn lock<'m, 'a>(making: &'m Mutex<Making<'a>>) -> MutexGuard<'m, Making<'a>> {
    making.lock().unwrap_or_else(PoisonError::into_inner)
}
