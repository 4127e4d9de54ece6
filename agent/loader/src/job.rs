//! Objects to be made, as runs of bytes of the model file.

use std::ops::Range;
use std::sync::Arc;

use tetris_store_layout::{Manifest, ManifestKind, ObjectKind};

use crate::error::LoadFailure;
use crate::model_bytes::ModelBytes;
use crate::private::PrivateBytes;

/// A run of bytes of an object.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Offset of the bytes in the model file.
    pub(crate) source: u64,
    pub(crate) len: u64,
    /// Offset of the bytes in the object.
    pub(crate) at: u64,
    /// The bytes, if they have been read already.
    pub(crate) kept: Option<KeptBytes>,
}

/// Bytes of the model file that are in memory since they were read for the plan.
#[derive(Debug)]
pub(crate) struct KeptBytes {
    pub(crate) bytes: Arc<PrivateBytes>,
    /// Offset of the first one.
    pub(crate) at: u64,
}

/// An object to be made of parts of the model file. Gaps between pieces are zeros.
#[derive(Debug)]
pub struct Job {
    pub(crate) kind: ObjectKind,
    pub(crate) len: u64,
    /// Ascending in `at`.
    pub(crate) pieces: Vec<Piece>,
}

impl Piece {
    fn new(source: u64, len: u64, at: u64) -> Self {
        let kept = None;
        Self {
            source,
            len,
            at,
            kept,
        }
    }
}

impl Job {
    /// Length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true for an object without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One object of the `len` bytes of the file at `source`.
    pub(crate) fn single(kind: ObjectKind, source: u64, len: u64) -> Self {
        Self {
            kind,
            len,
            pieces: vec![Piece::new(source, len, 0)],
        }
    }

    /// Offset in the model file of an object whose bytes are one run of it; `None` for a pack.
    pub fn run_at(&self) -> Option<u64> {
        match self.pieces.as_slice() {
            [run] if run.len == self.len && run.kept.is_none() => Some(run.source),
            _ => None,
        }
    }

    /// Ranges of the model file that [`Job::read`] reads for the whole object, in the object's order.
    pub fn unread(&self) -> impl Iterator<Item = Range<u64>> {
        let unread = self.pieces.iter().filter(|piece| piece.kept.is_none());
        unread.map(|piece| piece.source..piece.source + piece.len)
    }

    /// Fills `buffer` with the object's bytes from `offset` on.
    ///
    /// # Errors
    /// As [`ModelBytes::read_at`].
    pub fn read(
        &self,
        source: &dyn ModelBytes,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), LoadFailure> {
        let end = offset + buffer.len() as u64;
        if !matches!(self.pieces.as_slice(), [one] if one.len == self.len) {
            buffer.fill(0);
        }
        let first = self
            .pieces
            .partition_point(|piece| piece.at + piece.len <= offset);
        for piece in self
            .pieces
            .iter()
            .skip(first)
            .take_while(|piece| piece.at < end)
        {
            let from = piece.at.max(offset);
            let to = (piece.at + piece.len).min(end);
            let skip = from - piece.at;
            let target = buffer
                .get_mut((from - offset) as usize..(to - offset) as usize)
                .unwrap_or_default();
            match &piece.kept {
                None => source.read_at(target, piece.source + skip)?,
                Some(kept) => {
                    let begin = (kept.at + skip) as usize;
                    let part = kept.bytes.as_slice().get(begin..begin + target.len());
                    target.copy_from_slice(part.unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

/// The jobs that make the objects of a manifest, in the order of its object table.
pub fn jobs_of_manifest(manifest: &Manifest) -> Vec<Job> {
    let mut jobs: Vec<Job> = manifest
        .objects
        .iter()
        .map(|entry| Job {
            kind: entry.kind,
            len: entry.object.len,
            pieces: Vec::new(),
        })
        .collect();
    if manifest.kind == ManifestKind::File {
        return vec![Job::single(ObjectKind::File, 0, manifest.source_size)];
    }
    for tensor in &manifest.tensors {
        let job = tensor
            .place
            .and_then(|place| Some((place, jobs.get_mut(place.object as usize)?)));
        if let Some((place, job)) = job {
            let source = manifest.data_start + tensor.source_offset;
            job.pieces
                .push(Piece::new(source, tensor.len, place.offset));
        }
    }
    for job in &mut jobs {
        job.pieces.sort_by_key(|piece| piece.at);
        // Two tensors may lie at one place in a foreign manifest; one of them is enough.
        let mut free = 0;
        job.pieces.retain(|piece| {
            let keep = piece.at >= free;
            free = free.max(piece.at + piece.len);
            keep
        });
    }
    jobs
}
