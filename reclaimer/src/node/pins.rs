//! Objects that the daemon itself keeps referenced, and lets go of when a store needs the room.

use std::fmt;

use super::Node;
use super::look::Sight;
use super::pass::Progress;

/// Who keeps objects of stores referenced for a purpose of his own.
pub trait Pins: fmt::Debug + Send {
    /// Lets go of what can be let go of in these stores, by name. Returns how many bytes that were. Blocks for seconds at most.
    fn give_up(&self, stores: &[String]) -> u64;
}

impl Node {
    /// Asks `pins` before it says that there is too little that may be freed.
    #[must_use]
    pub fn with_pins(mut self, pins: Option<impl Pins + 'static>) -> Self {
        self.pins = pins.map(|pins| Box::new(pins) as _);
        self
    }

    /// Has the stores given up in which the last plan found too little that may be freed, because objects are referenced. Whether that
    /// makes another plan worth while.
    pub(super) fn give_up_pins(&self, sight: &Sight, progress: &Progress) -> bool {
        let Some(pins) = self.pins.as_ref().filter(|_| !self.dry_run) else {
            return false;
        };
        let short = progress.shortfalls.iter();
        let short: Vec<_> = short.filter(|one| one.kept.held_bytes > 0).collect();
        let stores = sight.snapshot.stores.iter().enumerate();
        let stores = stores.filter(|(index, store)| {
            let mut short = short.iter();
            short.any(|one| one.mount == store.mount && one.store.is_none_or(|of| of == *index))
        });
        let names: Vec<_> = stores.map(|(_, store)| store.name.clone()).collect();
        if names.is_empty() {
            return false;
        }
        let bytes = pins.give_up(&names);
        if bytes > 0 {
            tracing::info!(bytes, stores = ?names, "the GPU mirror gave up pages, for room");
        }
        bytes > 0
    }
}
