//! Repetition of a load whose file changes meanwhile.

use tetris_loader::{LoadError, LoadFailure, Source};

/// Most attempts to load a file that changes while it is read.
const ATTEMPTS: u32 = 3;

/// Tries `load` with `source`, and with another that `again` opens if the file changes meanwhile.
pub(super) fn retry<T>(
    mut source: Source,
    again: impl Fn() -> Result<Source, LoadError>,
    mut load: impl FnMut(&Source) -> Result<T, LoadFailure>,
) -> Result<T, LoadError> {
    for attempt in 1..=ATTEMPTS {
        match load(&source) {
            Ok(loaded) => return Ok(loaded),
            Err(LoadFailure::Changed) if attempt < ATTEMPTS => source = again()?,
            Err(LoadFailure::Changed) => {}
            Err(LoadFailure::Load(error)) => return Err(error),
        }
    }
    Err(LoadError::Changed {
        path: source.path().to_owned(),
        attempts: ATTEMPTS,
    })
}
