//! Report of the scrub on one object.

/// Result of the check of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScrubResult {
    /// It is sound.
    Sound,
    /// It was damaged, and quarantined.
    Quarantined,
    /// It could not be checked.
    Failed,
}

impl ScrubResult {
    /// All results.
    pub const ALL: [Self; 3] = [Self::Sound, Self::Quarantined, Self::Failed];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Quarantined => "quarantined",
            Self::Failed => "failed",
        }
    }
}

/// The check of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// The store's name.
    pub store: String,
    /// Its result.
    pub result: ScrubResult,
    /// Bytes that were read.
    pub bytes: u64,
}
