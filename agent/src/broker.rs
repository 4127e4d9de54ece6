//! A file for a store that this process can only read: the node's daemon publishes it.

use std::os::fd::AsFd;
use std::time::Instant;

use tetris_store_layout::{ManifestKind, Store};

use crate::attach::{Found, Missing, attach};
use crate::daemon::{self, IngestOutcome, Ingested};
use crate::load::Loader;
use crate::model::Part;
use crate::options::Progress;
use crate::report::Recognized;
use crate::source::{Failure, Source};

/// How often a file is passed: its objects may be reclaimed before they are attached.
const ATTEMPTS: u32 = 2;

impl Loader<'_> {
    /// Whether files are passed to the daemon that looks after `store`.
    pub(crate) fn asks_broker(&self, store: &Store) -> bool {
        let options = self.options;
        !store.is_writable()
            && options.broker
            && !options.broker_timeout.is_zero()
            && self.broker_patience.is_left(Instant::now())
    }

    /// Has the daemon publish a file, and attaches it; `None` when that was not to be had, for a reason that is noted.
    pub(crate) fn load_brokered(
        &self,
        source: &Source,
        kind: ManifestKind,
        store: &Store,
    ) -> Result<Option<Part>, Failure> {
        for _ in 0..ATTEMPTS {
            let Some(ingested) = self.ingested(source, kind, store) else {
                return Ok(None);
            };
            source.require_unchanged()?;
            if let Some(part) = self.attach_ingested(source, store, &ingested)? {
                ingested.done();
                return Ok(Some(part));
            }
        }
        self.answers
            .not_ingested("its objects were reclaimed before they could be attached");
        Ok(None)
    }

    fn attach_ingested(
        &self,
        source: &Source,
        store: &Store,
        ingested: &Ingested,
    ) -> Result<Option<Part>, Failure> {
        let id = ingested.manifest;
        match store.manifest(id) {
            Ok(Some(manifest)) => {
                let found = Found {
                    id,
                    manifest,
                    recognized: Recognized::Brokered,
                };
                attach(self, source, store, found, Missing::Leave)
            }
            Ok(None) => Ok(None),
            Err(error) => {
                tracing::warn!(%error, "manifest of a file that the daemon published ignored");
                Ok(None)
            }
        }
    }

    fn ingested(&self, source: &Source, kind: ManifestKind, store: &Store) -> Option<Ingested> {
        let progress = |done, total| {
            if let Some(progress) = &self.options.progress {
                progress.report(Progress { done, total });
            }
        };
        let socket = store.daemon_socket();
        let timeout = self.options.broker_timeout;
        match daemon::ingest(&socket, source.file().as_fd(), kind, timeout, progress) {
            IngestOutcome::Ingested(ingested) => return Some(ingested),
            IngestOutcome::Refused(refusal) => self.answers.not_ingested(&refusal.text),
            IngestOutcome::NoDaemon => self
                .answers
                .not_ingested("no daemon that takes files listens in the store"),
            IngestOutcome::Failed(why) => {
                self.broker_patience.lose(Instant::now());
                self.answers.not_ingested(&why);
            }
        }
        None
    }
}
