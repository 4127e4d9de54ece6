//! Programs that tests start as other users.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Path by which every user reaches a program: its own, or that of a second name in `dir` where a folder above it is
/// closed to others, as one that `mktemp -d` makes.
pub fn reachable(program: impl AsRef<Path>, dir: &Path) -> PathBuf {
    let program = program.as_ref();
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0);
    if program.ancestors().skip(1).all(is_open) {
        return program.to_owned();
    }
    let second = dir.join(program.file_name().unwrap());
    if !second.exists() {
        // Another file system takes no links.
        fs::hard_link(program, &second)
            .or_else(|_| fs::copy(program, &second).map(drop))
            .unwrap();
    }
    second
}
