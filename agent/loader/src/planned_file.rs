//! A file whose header was read and whose objects are planned.

use std::ops::Range;

use tetris_store_layout::{
    Digest, MAX_OBJECTS, Manifest, ManifestKind, ObjectRef, small_tensor_threshold,
};

use crate::error::LoadFailure;
use crate::header::{Header, TensorInfo};
use crate::model_bytes::ModelBytes;
use crate::plan::{FileShape, Plan};
use crate::source::Source;

/// A file whose header has been read.
#[derive(Debug)]
pub struct PlannedFile {
    /// The objects to make of it.
    pub plan: Plan,
    shape: FileShape,
    header: Option<Header>,
    /// The header as it was read; empty for a file kept whole.
    raw: Vec<u8>,
}

impl PlannedFile {
    /// Reads the header of `source`, and plans its objects on `threads` threads.
    ///
    /// # Errors
    /// When the file cannot be read, or its header is invalid.
    pub fn new(source: &Source, kind: ManifestKind, threads: usize) -> Result<Self, LoadFailure> {
        Self::within(source, kind, threads, usize::MAX)
    }

    /// As [`PlannedFile::new`], but a file of more than `max_tensors` is refused while its header is
    /// read.
    ///
    /// # Errors
    /// As [`PlannedFile::new`].
    pub fn within(
        source: &Source,
        kind: ManifestKind,
        threads: usize,
        max_tensors: usize,
    ) -> Result<Self, LoadFailure> {
        let size = source.identity().size;
        match kind {
            ManifestKind::File => Ok(Self::whole(size)),
            ManifestKind::Safetensors => {
                let (header, raw) = source.header_within(max_tensors)?;
                Self::of_header(header, raw, size, source, threads)
            }
        }
    }

    /// A file of `size` bytes, kept whole.
    pub fn whole(size: u64) -> Self {
        Self::new_of(
            Plan::whole_file(size),
            ManifestKind::File,
            size,
            None,
            Vec::new(),
        )
    }

    /// Plans the objects of a safetensors file of `size` bytes, whose header was read from the bytes
    /// `raw`. Reads the tensors of [`PlannedFile::small_tensors`].
    ///
    /// # Errors
    /// When `bytes` cannot be read, or have elements of a type that the store does not know.
    pub fn of_header(
        header: Header,
        raw: Vec<u8>,
        size: u64,
        bytes: &dyn ModelBytes,
        threads: usize,
    ) -> Result<Self, LoadFailure> {
        let plan = Plan::of_header(&header, bytes, threads)?;
        let kind = ManifestKind::Safetensors;
        Ok(Self::new_of(plan, kind, size, Some(header), raw))
    }

    /// Ranges of the file with the tensors that go into packs, in file order. Their bytes decide the
    /// packs, so that they are read first.
    pub fn small_tensors(header: &Header) -> Vec<Range<u64>> {
        let lengths: Vec<u64> = header.tensors.iter().map(TensorInfo::byte_len).collect();
        let threshold = small_tensor_threshold(&lengths, MAX_OBJECTS);
        let small = |tensor: &&TensorInfo| (1..threshold).contains(&tensor.byte_len());
        let range =
            |tensor: &TensorInfo| header.data_start + tensor.begin..header.data_start + tensor.end;
        header.tensors.iter().filter(small).map(range).collect()
    }

    fn new_of(
        plan: Plan,
        kind: ManifestKind,
        size: u64,
        header: Option<Header>,
        raw: Vec<u8>,
    ) -> Self {
        let shape = FileShape {
            kind,
            size,
            data_start: raw.len() as u64,
            header_digest: Digest::of(&raw),
        };
        Self {
            plan,
            shape,
            header,
            raw,
        }
    }

    /// The manifest, now that the plan's jobs have become `objects`, and the header's bytes.
    pub fn into_manifest(self, objects: &[ObjectRef]) -> (Manifest, Vec<u8>) {
        let manifest = self.plan.into_manifest(self.shape, self.header, objects);
        (manifest, self.raw)
    }
}
