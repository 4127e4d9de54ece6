//! The place of a tensor's bytes: the store, or private memory.

use tetris_store_layout::PublishOutcome;

/// The place of a tensor's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In an object that was in the store already.
    Shared,
    /// In an object that this load published.
    New,
    /// In this process's private memory.
    Private,
    /// The tensor has no bytes.
    Empty,
}

impl From<PublishOutcome> for Origin {
    fn from(outcome: PublishOutcome) -> Self {
        match outcome {
            PublishOutcome::Existing => Self::Shared,
            PublishOutcome::New => Self::New,
        }
    }
}

impl Origin {
    /// The origin's name for people and for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::New => "new",
            Self::Private => "private",
            Self::Empty => "empty",
        }
    }
}
