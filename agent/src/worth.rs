//! The decision to share a file.

use std::fmt;

use tetris_loader::{PrivateCause, Source};

use crate::options::LoadOptions;
use crate::private_reason::PrivateReason;

/// Least length of a file that is too new to be bound (LAYOUT.md 8), as a multiple of
/// [`LoadOptions::min_shared_bytes`]. Publishing it saves no later load anything: 4 MiB by default
/// are read in a millisecond, and hashed and written in several.
const NEW_FILE_FACTOR: u64 = 64;

/// The reason that sharing a file costs more than it saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWorthSharing {
    /// It has less than so many bytes.
    Small(u64),
    /// It is too new to be recognized again, and has less than so many bytes.
    New(u64),
}

impl NotWorthSharing {
    /// Looks at a safetensors file; `None` when it is worth sharing.
    pub fn of(source: &Source, options: &LoadOptions) -> Option<Self> {
        let (size, least) = (source.identity().size, options.min_shared_bytes);
        let least_new = least.saturating_mul(NEW_FILE_FACTOR);
        if size < least {
            Some(Self::Small(least))
        } else if size < least_new && !source.is_old() {
            Some(Self::New(least_new))
        } else {
            None
        }
    }

    /// Turns it into a reason for private memory.
    pub(crate) fn reason(self) -> PrivateReason {
        let cause = match self {
            Self::Small(_) => PrivateCause::SmallFile,
            Self::New(_) => PrivateCause::NewFile,
        };
        PrivateReason::new(cause, self.to_string())
    }
}

impl fmt::Display for NotWorthSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small(least) => write!(
                f,
                "the file is smaller than {least} bytes (min_shared_bytes)"
            ),
            Self::New(least) => write!(
                f,
                "the file is too new to be recognized again, and smaller than {least} bytes ({NEW_FILE_FACTOR} * min_shared_bytes)"
            ),
        }
    }
}
