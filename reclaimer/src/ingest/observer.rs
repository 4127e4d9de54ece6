//! Reports on passed files.

use std::time::Duration;

use tetris_wire::daemon::IngestReason;

/// End of a passed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngestOutcome {
    /// It was read and published.
    Published,
    /// It was in the store.
    Known,
    /// A derived tensor was recorded.
    Recorded,
    /// Its clients were gone before it was done.
    Abandoned,
    /// It was refused, for this reason.
    Refused(IngestReason),
}

impl IngestOutcome {
    /// All that have their own names.
    pub const ALL: [Self; 21] = [
        Self::Published,
        Self::Known,
        Self::Recorded,
        Self::Abandoned,
        Self::Refused(IngestReason::NOT_A_FILE),
        Self::Refused(IngestReason::NOT_READABLE),
        Self::Refused(IngestReason::TOO_LARGE),
        Self::Refused(IngestReason::NO_ROOM),
        Self::Refused(IngestReason::CHANGED),
        Self::Refused(IngestReason::INVALID),
        Self::Refused(IngestReason::BUSY),
        Self::Refused(IngestReason::STALLED),
        Self::Refused(IngestReason::UNAVAILABLE),
        Self::Refused(IngestReason::EMPTY),
        Self::Refused(IngestReason::LIMIT),
        Self::Refused(IngestReason::POLICY),
        Self::Refused(IngestReason::NOT_SEALED),
        Self::Refused(IngestReason::NOT_MEMORY),
        Self::Refused(IngestReason::SPARSE),
        Self::Refused(IngestReason::NO_DOMAIN),
        Self::Refused(IngestReason::NO_OBJECT),
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Known => "known",
            Self::Recorded => "recorded",
            Self::Abandoned => "abandoned",
            Self::Refused(IngestReason::NOT_A_FILE) => "not-a-file",
            Self::Refused(IngestReason::NOT_READABLE) => "not-readable",
            Self::Refused(IngestReason::TOO_LARGE) => "too-large",
            Self::Refused(IngestReason::NO_ROOM) => "no-room",
            Self::Refused(IngestReason::CHANGED) => "changed",
            Self::Refused(IngestReason::INVALID) => "invalid",
            Self::Refused(IngestReason::BUSY) => "busy",
            Self::Refused(IngestReason::STALLED) => "stalled",
            Self::Refused(IngestReason::EMPTY) => "empty",
            Self::Refused(IngestReason::LIMIT) => "limit",
            Self::Refused(IngestReason::POLICY) => "policy",
            Self::Refused(IngestReason::NOT_SEALED) => "not-sealed",
            Self::Refused(IngestReason::NOT_MEMORY) => "not-memory",
            Self::Refused(IngestReason::SPARSE) => "sparse",
            Self::Refused(IngestReason::NO_DOMAIN) => "no-domain",
            Self::Refused(IngestReason::NO_OBJECT) => "no-object",
            Self::Refused(_) => "unavailable",
        }
    }
}

/// The end of a passed file. One that several clients wait for ends once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedIngest<'a> {
    /// The store.
    pub store: &'a str,
    /// Its outcome.
    pub outcome: IngestOutcome,
    /// Bytes that were read of it; a byte read twice counts twice.
    pub bytes_read: u64,
    /// Time since it was passed.
    pub took: Duration,
}

/// Receives reports on passed files, on the runtime's threads, and should return soon.
pub trait IngestObserver: Send + Sync {
    /// Number of files of this store that wait, are read or are kept for clients.
    fn active_files(&self, store: &str, files: usize);

    /// A file has ended.
    fn ended(&self, ended: EndedIngest<'_>);
}

/// No observer.
impl IngestObserver for () {
    fn active_files(&self, _: &str, _: usize) {}

    fn ended(&self, _: EndedIngest<'_>) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_outcome_has_a_name_of_its_own() {
        let names: BTreeSet<_> = IngestOutcome::ALL.map(IngestOutcome::name).into();
        assert_eq!(names.len(), IngestOutcome::ALL.len());
        let later = IngestOutcome::Refused(IngestReason(77));
        assert!(names.contains(later.name()));
    }
}
