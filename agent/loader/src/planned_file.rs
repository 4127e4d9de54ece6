//! A file whose header was read and whose objects are planned.

use tetris_store_layout::{Digest, Manifest, ManifestKind};

use crate::error::LoadFailure;
use crate::header::Header;
use crate::pipeline::PipelineRun;
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
        let (header, raw) = match kind {
            ManifestKind::File => (None, Vec::new()),
            ManifestKind::Safetensors => {
                let (header, raw) = source.header_within(max_tensors)?;
                (Some(header), raw)
            }
        };
        let plan = match &header {
            Some(header) => Plan::of_header(header, source, threads)?,
            None => Plan::whole_file(size),
        };
        let shape = FileShape {
            kind,
            size,
            data_start: raw.len() as u64,
            header_digest: Digest::of(&raw),
        };
        Ok(Self {
            plan,
            shape,
            header,
            raw,
        })
    }

    /// The manifest and the header's bytes.
    pub fn into_manifest(self, run: &PipelineRun) -> (Manifest, Vec<u8>) {
        let objects: Vec<_> = run.objects.iter().map(|hashed| hashed.object).collect();
        let manifest = self.plan.into_manifest(self.shape, self.header, &objects);
        (manifest, self.raw)
    }
}
