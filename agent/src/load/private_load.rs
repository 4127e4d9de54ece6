//! Loading a file into private memory.

use tetris_loader::{LoadFailure, Plan, Recognized, Source};
use tetris_store_layout::ManifestKind;

use super::context::LoadContext;
use super::read_private::read_private;
use crate::backing::Backings;
use crate::loaded_file::{LoadedFile, TensorEntry};
use crate::private_reason::PrivateReason;
use crate::report::LoadReport;

impl LoadContext<'_> {
    /// Reads a file into private memory, for the given reason. A file that would be kept whole is not
    /// copied.
    pub(super) fn load_private(
        &self,
        source: &Source,
        kind: ManifestKind,
        recognized: Recognized,
        reason: PrivateReason,
    ) -> Result<LoadedFile, LoadFailure> {
        let mut report = LoadReport {
            recognized: vec![recognized],
            ..LoadReport::default()
        };
        report.set_private(reason);
        let mut file = LoadedFile {
            path: source.path().to_owned(),
            size: source.identity().size,
            manifest: None,
            metadata: Vec::new(),
            entries: Vec::new(),
            backings: Backings::default(),
            report: LoadReport::default(),
            has_identity: false,
        };
        if kind == ManifestKind::Safetensors {
            let (header, _) = source.header()?;
            let plan = Plan::one_per_tensor(&header, source)?;
            let threads = self.options.thread_count();
            let (places, buffer) = read_private(source, &plan.jobs, threads, &mut report)?;
            file.backings = Backings::new(places, vec![buffer]);
            let planned = header.tensors.into_iter().zip(plan.tensors);
            file.entries = planned
                .map(|(info, planned)| TensorEntry {
                    len: info.byte_len(),
                    dtype: planned.dtype,
                    name: info.name,
                    shape: info.shape,
                    id: None,
                    place: planned.place,
                })
                .collect();
            file.metadata = header.metadata.into_iter().collect();
        }
        source.require_unchanged()?;
        file.report = report;
        Ok(file)
    }
}
