//! Removal of a store's directory: steps X3 and X4 of LAYOUT.md 5.6.

use std::io;
use std::path::Path;

/// Prefix of a directory's name during its removal. No namespace begins with it.
const REMOVED: &str = ".removed-";

/// Removes the directory of a store. The first step takes its name away, so that no process finds
/// it any more. Leftovers of an earlier attempt go as well.
///
/// # Errors
/// When the kernel refuses to rename or remove. A missing directory is no error.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let removed = path.with_file_name(format!("{REMOVED}{name}"));
    unless_missing(std::fs::remove_dir_all(&removed))?;
    unless_missing(std::fs::rename(path, &removed))?; // X3
    unless_missing(std::fs::remove_dir_all(&removed))
}

/// Completes the removals in `parent` that an earlier daemon began.
///
/// # Errors
/// When the kernel refuses to list or remove. A missing directory is no error.
pub fn remove_leftovers(parent: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(REMOVED) {
            unless_missing(std::fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
