//! Models: whether and as what the store knows them, and the part of each that would be private.

mod file;
mod identity;
mod outlook;
mod presence;

use std::path::Path;

use serde_json::Value;
use tetris_loader::{LoadError, hub};
use tetris_units::size::Bytes;

use super::check::{Check, Section};
use super::store::SeenStore;
use file::LookedFile;

/// The checks of the model at `path`.
pub(super) fn section(path: &Path, seen: &SeenStore, min_shared_bytes: u64) -> Section {
    let mut section = Section::new("model", Some(path.display().to_string()));
    match look(path, seen, min_shared_bytes) {
        Ok(files) => {
            section.checks.push(summary(&files));
            section.checks.extend(identity::checks(path, &files));
            section.checks.push(presence::check(path, &files, seen));
            section.checks.push(outlook::check(&files, seen));
            section.checks.push(page_cache(&files));
        }
        Err(error) => section.checks.push(
            Check::failure("files", error.to_string())
                .expected("a safetensors file, a folder with one model, or a file to keep whole"),
        ),
    }
    section
}

fn look(
    path: &Path,
    seen: &SeenStore,
    min_shared_bytes: u64,
) -> Result<Vec<LookedFile>, LoadError> {
    let store = seen.open().map(|open| &open.store);
    let layout = hub::resolve(path)?;
    // The files of a directory are a model's; a file by itself may be of any kind.
    let is_model = path.is_dir();
    let files = layout.files.iter();
    files
        .map(|file| LookedFile::look(file, is_model, store, min_shared_bytes))
        .collect()
}

fn summary(files: &[LookedFile]) -> Check {
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let tensors: usize = files.iter().map(|file| file.tensors.len()).sum();
    let count = match files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let kind = match tensors {
        0 => "kept whole, by `tetris exec`".to_owned(),
        tensors => format!("{tensors} tensors"),
    };
    let list: Vec<Value> = files.iter().map(LookedFile::to_json).collect();
    Check::ok("files", format!("{count}, {}, {kind}", Bytes(bytes)))
        .fact("bytes", bytes)
        .fact("tensors", tensors)
        .fact("files", list)
}

/// The part of the files that the kernel keeps: processes that map one and the same file share it.
fn page_cache(files: &[LookedFile]) -> Check {
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let cached: Option<u64> = files.iter().map(|file| file.cached).sum();
    let check = match cached {
        Some(cached) => Check::ok(
            "page cache",
            format!(
                "{} of {}: processes that map these very files share it, as safetensors does; other downloads and private copies do not",
                Bytes(cached),
                Bytes(bytes)
            ),
        ),
        None => Check::note(
            "page cache",
            "not known: the kernel tells only those who own the files or may write to them",
        ),
    };
    check.fact("cached_bytes", cached)
}

/// The first of some names, and the number of the others.
fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).copied().collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_names_are_listed() {
        assert_eq!(some_of(&[]), "");
        assert_eq!(some_of(&["a", "b", "c"]), "a, b, c");
        assert_eq!(some_of(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
