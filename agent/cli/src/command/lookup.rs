//! Finding what an id, the beginning of one, or a path means.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use tetris_agent::{Agent, LoadOptions, Store};
use tetris_store_layout::{DerivedId, Manifest, ManifestId, ObjectEntry};

use super::error::{Error, Result};
use super::exit::Code;
use super::loading::kind_of;
use super::progress::Bar;
use tetris_agent::store_location::StoreLocation;

/// Fewer digits would name too much: one in 65,536 objects has the same four.
const MIN_DIGITS: usize = 4;
/// Digits of an id in tables.
const SHORT: usize = 12;
/// The most candidates that an error lists.
const SHOWN: usize = 10;

/// Something in a store that has an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreEntry {
    /// An object.
    Object(ObjectEntry),
    /// A manifest.
    Manifest(ManifestId),
    /// A derived record.
    Derived(DerivedId),
}

impl StoreEntry {
    /// The kind and the id.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Object(entry) => format!("object   {}", entry.object.id),
            Self::Manifest(id) => format!("manifest {id}"),
            Self::Derived(id) => format!("derived  {id}"),
        }
    }
}

/// The beginning of an id, as tables show it.
pub(crate) fn short(id: impl Display) -> String {
    let mut id = id.to_string();
    id.truncate(SHORT);
    id
}

/// Returns true if `text` can be the beginning of an id, or the name of an object's file.
pub(crate) fn is_prefix(text: &str) -> bool {
    let digits = digits_of(text);
    (MIN_DIGITS..=64).contains(&digits.len())
        && digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The id in `text`, which may be the name of an object's file: `<id>-<crc>`.
fn digits_of(text: &str) -> &str {
    text.split_once('-').map_or(text, |(id, _)| id)
}

/// The object or record in `store` whose id begins with `text`.
///
/// # Errors
/// When nothing has, or more than one; then with a list.
pub(crate) fn find(store: &Store, text: &str) -> Result<StoreEntry> {
    if !is_prefix(text) {
        return Err(not_an_id(text));
    }
    let begins = |id: &dyn Display| id.to_string().starts_with(digits_of(text));
    let mut entries: Vec<StoreEntry> = Vec::new();
    let objects = store.objects()?.objects.into_iter();
    entries.extend(
        objects
            .filter(|entry| begins(&entry.object.id))
            .map(StoreEntry::Object),
    );
    let manifests = store.manifests()?.into_iter().map(|record| record.id);
    entries.extend(manifests.filter(|id| begins(id)).map(StoreEntry::Manifest));
    let derived = store.derived_records()?.into_iter().map(|record| record.id);
    entries.extend(derived.filter(|id| begins(id)).map(StoreEntry::Derived));
    match entries[..] {
        [only] => Ok(only),
        [] => Err(Error::message(
            Code::Failed,
            format_args!(
                "nothing in the store `{}` has an id that begins with `{text}`; list ids with `tetris ls`, `tetris ls --objects`, `tetris ls --derived` or `tetris ls --layouts`",
                store.root().display()
            ),
        )),
        _ => Err(ambiguous(text, &entries)),
    }
}

fn ambiguous(text: &str, found: &[StoreEntry]) -> Error {
    let mut lines: Vec<String> = found.iter().map(StoreEntry::describe).collect();
    lines.sort();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    Error::message(
        Code::Failed,
        format_args!(
            "`{text}` begins {} ids; give more digits of one of them:\n  {}",
            found.len(),
            lines.join("\n  ")
        ),
    )
}

fn not_an_id(text: &str) -> Error {
    Error::message(
        Code::Model,
        format_args!(
            "`{text}` is neither a file or directory nor an id: expected a path, or at least {MIN_DIGITS} of the 64 hexadecimal digits (0-9, a-f) that `tetris ls` shows"
        ),
    )
}

/// The manifests of the model at `path`, or the manifest whose id begins with it.
pub(crate) fn manifests(text: &Path, location: &StoreLocation) -> Result<Vec<(PathBuf, Manifest)>> {
    if text.exists() {
        let agent = match location.open() {
            Ok(store) => Agent::with_store(store),
            // A file can be hashed without a store.
            Err(_unusable) => Agent::without_store(),
        };
        let options = LoadOptions::default().with_progress(Bar::of_load("hashing", text));
        return Ok(agent.manifests(text, kind_of(text, false), &options)?);
    }
    let prefix = text.to_string_lossy();
    if !is_prefix(&prefix) {
        return Err(not_an_id(&prefix));
    }
    let store = location.open()?;
    match find(&store, &prefix)? {
        StoreEntry::Manifest(id) => Ok(vec![(text.to_owned(), manifest(&store, id)?)]),
        other => Err(Error::message(
            Code::Model,
            format_args!("expected a model, found {}", other.describe()),
        )),
    }
}

/// The manifest `id`, which was there a moment ago.
pub(crate) fn manifest(store: &Store, id: ManifestId) -> Result<Manifest> {
    let gone = || Error::message(Code::Failed, format_args!("manifest {id} is gone"));
    store.manifest(id)?.ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lowercase_digits_and_more_are_a_prefix() {
        let name = format!("{}-00c0ffee", "a".repeat(64));
        for text in ["abcd", "0123456789", &"f".repeat(64), &name] {
            assert!(is_prefix(text), "{text}");
        }
        for text in ["", "abc", "ABCD", "abcg", "a/bc", &"f".repeat(65)] {
            assert!(!is_prefix(text), "{text}");
        }
    }
}
