//! The built programs, beside the test.

use std::path::{Path, PathBuf};

/// Folder of the built programs, if all of these are there: a package alone builds no others.
pub fn folder_with(names: &[&str]) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folder = test.ancestors().nth(2).map(Path::to_path_buf)?;
    let all = names.iter().all(|name| folder.join(name).exists());
    all.then_some(folder)
}
