//! Publishing the objects of a known file that the store does not have.

use tetris_loader::{HashedObject, Job, LoadFailure, PrivateBytes, jobs_of_manifest};
use tetris_store_layout::ManifestKind;

use super::context::{LoadContext, SharedLoad};
use super::recognize::KnownFile;
use crate::private_reason::PrivateReason;

/// The objects read from a known file.
#[derive(Default)]
pub(super) struct ReadObjects {
    /// One per missing object, in their order.
    pub(super) objects: Vec<HashedObject>,
    /// Those without a mapping, if the store cannot be written.
    pub(super) private: Option<Vec<PrivateBytes>>,
    /// Bytes read from the file.
    pub(super) bytes_read: u64,
    /// The first reason for which the store did not take an object, if there is one.
    pub(super) refused: Option<PrivateReason>,
}

impl LoadContext<'_> {
    /// Reads the objects with the indices `missing` from the file and publishes them. `None` when the
    /// file has other bytes than its manifest says.
    pub(super) fn publish_missing(
        &self,
        load: SharedLoad<'_>,
        known: &KnownFile,
        missing: &[usize],
    ) -> Result<Option<ReadObjects>, LoadFailure> {
        let (expected, jobs): (Vec<_>, Vec<Job>) = jobs_of_manifest(&known.manifest)
            .into_iter()
            .enumerate()
            .filter(|(index, _)| missing.binary_search(index).is_ok())
            .filter_map(|(index, job)| Some((known.manifest.objects.get(index)?.object, job)))
            .unzip();
        let (run, private) = if load.store.is_writable() || load.kind == ManifestKind::File {
            (
                self.run_pipeline(load.source, &jobs, Some(load.store), true)?,
                None,
            )
        } else {
            let (run, private) = self.read_once(load.source, &jobs, load.store)?;
            (run, Some(private))
        };
        let found = run.objects.iter().map(|hashed| hashed.object);
        if !found.eq(expected) {
            return Ok(None);
        }
        Ok(Some(ReadObjects {
            objects: run.objects,
            private,
            bytes_read: run.bytes_read,
            refused: run
                .refused
                .as_ref()
                .map(|error| PrivateReason::of_publish(error, load.store)),
        }))
    }
}
