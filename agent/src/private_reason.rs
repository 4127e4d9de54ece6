//! The reason for private memory: its cause, and a sentence with the details.

use std::path::{Path, PathBuf};

use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::{PublishError, Store};

use crate::store_location::SHM_DIR;

/// A cause with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrivateReason {
    pub(crate) cause: PrivateCause,
    /// The details, as a sentence.
    pub(crate) text: String,
}

/// A configured store that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) reason: PrivateReason,
    /// The store's directory.
    pub(crate) dir: PathBuf,
}

impl PrivateReason {
    pub(crate) fn new(cause: PrivateCause, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cause, text }
    }

    /// The reason of a process without a store: none was configured, or it cannot be used.
    pub(crate) fn without_store(unavailable: Option<&Unavailable>) -> Self {
        let not_used = || Self::new(PrivateCause::NotUsed, PrivateCause::NotUsed.sentence());
        unavailable.map_or_else(not_used, |unavailable| unavailable.reason.clone())
    }

    /// The reason for which `store` did not take bytes.
    pub(crate) fn of_publish(error: &PublishError, store: &Store) -> Self {
        Self::new(PrivateCause::of_publish(error, store), error.to_string())
    }
}

/// The reason of a process without a store, with the next step behind a semicolon: for errors of calls
/// that need one.
pub(crate) fn no_store(unavailable: Option<&Unavailable>) -> String {
    let reason = PrivateReason::without_store(unavailable);
    let dir = store_dir(None, unavailable).unwrap_or(Path::new(SHM_DIR));
    let remedy = reason.cause.remedy(Words::of_process(), dir);
    format!("{}; {remedy}", reason.text)
}

/// The directory of the store that a process uses or was to use.
pub(crate) fn store_dir<'a>(
    store: Option<&'a Store>,
    unavailable: Option<&'a Unavailable>,
) -> Option<&'a Path> {
    let dir = unavailable.map(|unavailable| unavailable.dir.as_path());
    store.map(Store::root).or(dir)
}
