//! All of a store.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Everything below `root`, and `root` itself. A folder that this user may not read is there without its contents.
pub fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let entries = match std::fs::read_dir(&path) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => continue,
                entries => entries?,
            };
            for entry in entries {
                found.push(entry?.path());
            }
        }
    }
    Ok(found)
}
