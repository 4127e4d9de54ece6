//! A model file in memory: its tensors, and the memory behind them.

use std::path::{Path, PathBuf};

use tetris_loader::Recognized;
use tetris_store_layout::{Dtype, Manifest, ManifestId, ManifestTensor, TensorId, TensorPlace};

use crate::backing::Backings;
use crate::origin::Origin;
use crate::report::LoadReport;

/// A tensor of a model file.
#[derive(Debug)]
pub(crate) struct TensorEntry {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) id: Option<TensorId>,
    pub(crate) len: u64,
    pub(crate) place: Option<TensorPlace>,
}

impl From<ManifestTensor> for TensorEntry {
    fn from(tensor: ManifestTensor) -> Self {
        Self {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
            id: Some(tensor.id),
            len: tensor.len,
            place: tensor.place,
        }
    }
}

/// A model file in memory.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    pub(crate) path: PathBuf,
    /// Length of the file in bytes.
    pub(crate) size: u64,
    /// `None` when the file was read into private memory without being hashed.
    pub(crate) manifest: Option<ManifestId>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) entries: Vec<TensorEntry>,
    pub(crate) backings: Backings,
    pub(crate) report: LoadReport,
    /// True if `stat` would have recognized the file, had it been loaded on this node before.
    pub(crate) has_identity: bool,
}

impl LoadedFile {
    pub(crate) fn new(
        path: &Path,
        id: ManifestId,
        manifest: Manifest,
        backings: Backings,
        report: LoadReport,
    ) -> Self {
        Self {
            path: path.to_owned(),
            size: manifest.source_size,
            manifest: Some(id),
            metadata: manifest.metadata,
            entries: manifest
                .tensors
                .into_iter()
                .map(TensorEntry::from)
                .collect(),
            backings,
            report,
            has_identity: false,
        }
    }

    /// Fills in the report from the backings.
    pub(crate) fn account(&mut self) {
        let report = &mut self.report;
        let by_choice = report.recognized == [Recognized::Unshared];
        report.tensors = self.entries.len() as u64;
        report.objects = self.backings.len() as u64;
        let other_file = self.has_identity
            && matches!(
                report.recognized[..],
                [Recognized::ByHashing | Recognized::ByBlobName | Recognized::BySidecar]
            );
        for (len, origin) in self.backings.lengths() {
            match origin {
                Origin::Shared => {
                    report.bytes_shared += len;
                    report.bytes_of_other_files += if other_file { len } else { 0 };
                }
                Origin::New => report.bytes_new += len,
                Origin::Private | Origin::Empty if by_choice => report.bytes_unshared += len,
                Origin::Private | Origin::Empty => report.bytes_private += len,
            }
        }
    }
}
