//! A pipeline with the options of a load.

use tetris_loader::{Job, LoadFailure, Pipeline, PipelineRun, Source};
use tetris_store_layout::Store;

use super::context::LoadContext;

impl LoadContext<'_> {
    /// Hashes `jobs`, and publishes or finds their objects in `store`. With `known_missing` they are
    /// not looked up first.
    pub(super) fn run_pipeline(
        &self,
        source: &Source,
        jobs: &[Job],
        store: Option<&Store>,
        known_missing: bool,
    ) -> Result<PipelineRun, LoadFailure> {
        Pipeline {
            source,
            jobs,
            store,
            known_missing,
            access: self.options.access,
            threads: self.options.thread_count(),
            progress: self.options.progress.as_ref(),
            make_room: &|bytes| self.make_room(bytes),
        }
        .run()
    }
}
