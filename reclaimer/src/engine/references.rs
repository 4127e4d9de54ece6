//! Release of references that the daemon itself holds, when a store needs the room.

use super::Reclaimer;
use super::observation::Observation;
use super::progress::Progress;
use crate::room::DaemonReferences;

impl Reclaimer {
    /// Uses `references`: the reclaimer releases them before it refuses a load.
    #[must_use]
    pub fn with_references(mut self, references: Option<impl DaemonReferences + 'static>) -> Self {
        self.references = references.map(|references| Box::new(references) as _);
        self
    }

    /// Releases references in stores where the last plan fell short because of referenced objects.
    /// Returns true if another plan can free more.
    pub(super) fn release_references(&self, seen: &Observation, progress: &Progress) -> bool {
        let Some(references) = self.references.as_ref().filter(|_| !self.dry_run) else {
            return false;
        };
        let short = progress.shortfalls.iter();
        let short: Vec<_> = short
            .filter(|shortfall| shortfall.kept.held_bytes > 0)
            .collect();
        let stores = seen.snapshot.stores.iter().enumerate();
        let stores = stores.filter(|(index, store)| {
            let mut short = short.iter();
            short.any(|shortfall| {
                shortfall.mount == store.mount && shortfall.store.is_none_or(|of| of == *index)
            })
        });
        let names: Vec<_> = stores.map(|(_, store)| store.name.clone()).collect();
        if names.is_empty() {
            return false;
        }
        let bytes = references.release(&names);
        if bytes > 0 {
            tracing::info!(bytes, stores = ?names, "the GPU mirror released pages, for room");
        }
        bytes > 0
    }
}
