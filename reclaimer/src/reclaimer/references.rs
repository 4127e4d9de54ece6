//! Objects that the daemon itself keeps referenced, and lets go of when a store needs the room.

use super::Reclaimer;
use super::observation::Observation;
use super::progress::Progress;
use crate::room::DaemonReferences;

impl Reclaimer {
    /// Asks `references` before it says that there is too little that may be freed.
    #[must_use]
    pub fn with_references(mut self, references: Option<impl DaemonReferences + 'static>) -> Self {
        self.references = references.map(|references| Box::new(references) as _);
        self
    }

    /// Has the stores given up in which the last plan found too little that may be freed, because objects are referenced. Whether that
    /// makes another plan worth while.
    pub(super) fn release_references(&self, seen: &Observation, progress: &Progress) -> bool {
        let Some(references) = self.references.as_ref().filter(|_| !self.dry_run) else {
            return false;
        };
        let short = progress.shortfalls.iter();
        let short: Vec<_> = short.filter(|one| one.kept.held_bytes > 0).collect();
        let stores = seen.snapshot.stores.iter().enumerate();
        let stores = stores.filter(|(index, store)| {
            let mut short = short.iter();
            short.any(|one| one.mount == store.mount && one.store.is_none_or(|of| of == *index))
        });
        let names: Vec<_> = stores.map(|(_, store)| store.name.clone()).collect();
        if names.is_empty() {
            return false;
        }
        let bytes = references.release(&names);
        if bytes > 0 {
            tracing::info!(bytes, stores = ?names, "the GPU mirror gave up pages, for room");
        }
        bytes > 0
    }
}
