//! The memory behind the objects of a file: mappings, and private memory for the rest.

use tetris_loader::{HashedObject, LoadError, LoadFailure, PrivateBytes, Source, jobs_of_manifest};
use tetris_store_layout::{Manifest, ManifestKind};

use super::context::LoadContext;
use super::read_private::read_private;
use crate::backing::{Backing, Backings};
use crate::private_reason::PrivateReason;
use crate::report::LoadReport;

/// The objects of a file, some of them without a mapping.
pub(super) struct HashedFile {
    /// One per object of the manifest, in its order.
    pub(super) objects: Vec<HashedObject>,
    /// The reason for which the store did not take an object, if one is known.
    pub(super) refused: Option<PrivateReason>,
    /// True if the process has reached its limit of mappings: no thread can be started safely.
    pub(super) at_map_limit: bool,
    /// The objects without a mapping, if they have been read already.
    pub(super) private: Option<Vec<PrivateBytes>>,
}

impl LoadContext<'_> {
    /// Turns the objects of a file into backings. Reads those without a mapping into private memory.
    pub(super) fn complete(
        &self,
        source: &Source,
        manifest: &Manifest,
        file: HashedFile,
        report: &mut LoadReport,
    ) -> Result<Backings, LoadFailure> {
        let is_missing = |hashed: &HashedObject| hashed.mapping.is_none();
        let (mut private, mut buffers) = (Vec::new(), Vec::new());
        if file.objects.iter().any(is_missing) {
            let lengths = |hashed: &HashedObject| hashed.object.len;
            let missing = file.objects.iter().filter(|hashed| is_missing(hashed));
            let missing = missing.map(lengths).sum();
            let total = file.objects.iter().map(lengths).sum();
            report.set_private(self.private_reason(file.refused, missing, total));
            // A whole file is not copied: programs go on with the original.
            if manifest.kind == ManifestKind::File {
                return Ok(Backings::default());
            }
            if let Some(read) = file.private {
                private.extend(read.iter().enumerate().map(Backing::of_buffer));
                buffers = read;
            } else {
                let threads = if file.at_map_limit {
                    1
                } else {
                    self.options.thread_count()
                };
                let jobs: Vec<_> = jobs_of_manifest(manifest)
                    .into_iter()
                    .zip(&file.objects)
                    .filter_map(|(job, hashed)| is_missing(hashed).then_some(job))
                    .collect();
                let (places, buffer) = read_private(source, &jobs, threads, report)?;
                (private, buffers) = (places, vec![buffer]);
            }
        }
        let mut private = private.into_iter();
        let backings = file.objects.into_iter().map(|hashed| match hashed.mapping {
            Some((mapping, outcome)) => Some(Backing::Store {
                object: hashed.object,
                mapping,
                outcome,
            }),
            None => private.next(),
        });
        // One missing would shift the others under the wrong tensors.
        let backings = backings.collect::<Option<_>>().ok_or_else(|| {
            let error = std::io::Error::other("an object was not read (this is a bug)");
            LoadError::io("read", source.path(), error)
        })?;
        Ok(Backings::new(backings, buffers))
    }
}
