//! Files whose reads fail in the middle (EIO): of a disk that is broken, or a volume in user space that reports it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::{Rounds, fuse};

/// Files passed in a round.
const PASSED: u64 = 4;

/// The directory with such files.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Mounts it, in a mount namespace of this process. Needs root.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount(scratch: &Path) -> Result<Self> {
        let folder = fuse::folder(scratch)?;
        fuse::serve(&folder)?;
        Ok(Self(folder))
    }
}

pub(super) fn run(rounds: &Rounds<'_>, Folder(folder): &Folder) -> Result<()> {
    rounds.repeat(Duration::from_millis(500), |round, tally| {
        for number in 0..PASSED {
            let file = fuse::broken((round * PASSED + number) % fuse::FILES);
            tally.count(rounds.pass(&folder.join(file))?);
        }
        Ok(())
    })
}
