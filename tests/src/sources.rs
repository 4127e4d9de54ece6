//! Files of this repository, for tests of its words.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of build outputs.
const OUTPUTS: [&str; 4] = ["target", "venv", "build", "node_modules"];

/// Root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files with one of these extensions, relative to the repository's root and in order, without
/// build outputs and hidden folders.
pub fn sources(extensions: &[&str]) -> Vec<PathBuf> {
    let root = repository();
    let mut paths = Vec::new();
    collect(&root, extensions, &mut paths);
    paths.iter().map(|path| relative(path, &root)).collect()
}

fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let extension = path.extension().and_then(OsStr::to_str);
        if path.is_dir() {
            if !name.starts_with('.') && !OUTPUTS.contains(&name.as_ref()) {
                collect(&path, extensions, found);
            }
        } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
            found.push(path);
        }
    }
}
