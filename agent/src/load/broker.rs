//! The node daemon's broker, which publishes a file for a store that this process can only read.

use std::os::fd::AsFd;
use std::time::Instant;

use tetris_loader::{PrivateCause, Progress, Recognized};
use tetris_store_layout::{ManifestId, Store};
use tetris_wire::daemon::IngestReason;

use super::recognize::KnownFile;
use super::{LoadContext, SharedLoad};
use crate::daemon::{DaemonClient, DaemonError, HeldInStore};

/// Most times that a file is passed: its objects may be reclaimed before they are attached.
pub(super) const ATTEMPTS: u32 = 2;

/// The file that the daemon published, by its manifest.
pub(super) fn known(store: &Store, ingested: &HeldInStore<ManifestId>) -> Option<KnownFile> {
    let id = ingested.content;
    match store.manifest(id) {
        Ok(manifest) => Some(KnownFile {
            id,
            manifest: manifest?,
            recognized: Recognized::Brokered,
        }),
        Err(error) => {
            tracing::warn!(%error, "manifest of a file that the daemon published ignored");
            None
        }
    }
}

/// The cause that a daemon's refusal stands for. The sizes that are needed are not known yet.
pub(super) fn cause_of(reason: IngestReason) -> PrivateCause {
    match reason {
        IngestReason::NO_ROOM => PrivateCause::Full { needed: 0 },
        IngestReason::POLICY => PrivateCause::Kept { needed: 0 },
        IngestReason::LIMIT => PrivateCause::OverLimit,
        IngestReason::TOO_LARGE => PrivateCause::TooSmall { needed: 0 },
        _ => PrivateCause::DaemonRefused,
    }
}

impl LoadContext<'_> {
    /// Returns true if files are passed to the daemon that looks after `store`.
    pub(crate) fn asks_broker(&self, store: &Store) -> bool {
        let options = self.options;
        !store.is_writable()
            && options.broker
            && !options.broker_timeout.is_zero()
            && self.broker_patience.is_left(Instant::now())
    }

    /// Passes a file to the daemon. `None` when it does not publish the file, for a noted reason.
    pub(super) fn ingested(&self, load: SharedLoad<'_>) -> Option<HeldInStore<ManifestId>> {
        let progress = |done, total| {
            if let Some(progress) = &self.options.progress {
                progress.report(Progress::new(done, total));
            }
        };
        self.absence.wait(load.store);
        let daemon = DaemonClient::of_store(load.store, self.options.broker_timeout);
        let file = load.source.file().as_fd();
        match daemon.ingest(file, load.kind, progress) {
            Ok(ingested) => return Some(ingested),
            Err(DaemonError::Refused(refusal)) => {
                self.answers
                    .not_ingested(cause_of(refusal.reason), &refusal.text);
            }
            Err(error) if error.is_absent() || matches!(error, DaemonError::TooOld { .. }) => {
                self.answers.not_ingested(
                    PrivateCause::of_read_only(load.store),
                    "no daemon that takes files listens in the store",
                );
            }
            Err(error) => {
                self.broker_patience.lose(Instant::now());
                let why = error.to_string();
                self.answers.not_ingested(PrivateCause::DaemonSilent, &why);
            }
        }
        None
    }
}
