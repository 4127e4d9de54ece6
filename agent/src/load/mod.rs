//! The load of one file.
//!
//! [`flow`](LoadContext::load_source) decides the steps: recognize the file and attach its objects,
//! or ask the node daemon's broker, or read, hash and publish it. The other modules are the steps.

mod broker;
mod cold_load;
mod flow;
mod make_room;
mod manifest;
mod memory;
mod read;
mod recognize;

use crate::daemon::{Absence, Answers, Patience};
use crate::options::LoadOptions;
use crate::private_reason::Unavailable;
use std::sync::Mutex;
use tetris_loader::Source;
use tetris_store_layout::{ManifestKind, Store};

#[cfg(feature = "gpu")]
pub(crate) use recognize::KnownFile;
pub use recognize::bound;

/// One load: its options, the store, and the daemon's answers so far.
pub(crate) struct LoadContext<'a> {
    pub(crate) store: Option<&'a Store>,
    /// The configured store, if it cannot be used.
    pub(super) unavailable: Option<&'a Unavailable>,
    pub(super) options: &'a LoadOptions,
    /// Held by the one thread that makes room; the others find that it was made.
    pub(super) making_room: Mutex<()>,
    /// True if the node daemon is worth asking for room.
    pub(super) patience: &'a Patience,
    /// True if the node daemon is worth passing files to.
    pub(super) broker_patience: &'a Patience,
    /// Waits for a node daemon that is away.
    pub(super) absence: &'a Absence,
    /// Refusals of the daemon to this load.
    pub(super) answers: Answers,
}

/// A file loaded through a store.
#[derive(Clone, Copy)]
pub(super) struct SharedLoad<'a> {
    pub(super) source: &'a Source,
    pub(super) kind: ManifestKind,
    pub(super) store: &'a Store,
}

impl<'a> LoadContext<'a> {
    pub(crate) fn options(&self) -> &'a LoadOptions {
        self.options
    }

    pub(crate) fn new(
        store: Option<&'a Store>,
        unavailable: Option<&'a Unavailable>,
        options: &'a LoadOptions,
        patience: &'a Patience,
        broker_patience: &'a Patience,
        absence: &'a Absence,
    ) -> Self {
        Self {
            store,
            unavailable,
            options,
            making_room: Mutex::new(()),
            patience,
            broker_patience,
            absence,
            answers: Answers::default(),
        }
    }
}
