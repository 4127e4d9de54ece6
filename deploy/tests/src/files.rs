//! Paths of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder `deploy/`.
pub fn deploy() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map(Path::to_owned).unwrap_or_default()
}

/// The text of a file of `deploy/`.
pub fn read(path: &str) -> String {
    let path = deploy().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder of `deploy/`, as paths from there, in order.
pub fn below(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![deploy().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if let Ok(path) = entry.path().strip_prefix(deploy()) {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}
