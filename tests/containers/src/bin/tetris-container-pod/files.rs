//! All of a store.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Everything below `root`, and `root` itself.
pub fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            for entry in std::fs::read_dir(&path)? {
                found.push(entry?.path());
            }
        }
    }
    Ok(found)
}
