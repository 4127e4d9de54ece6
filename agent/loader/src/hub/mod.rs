//! From the path a user names to the safetensors files behind it, for the directory layouts of the Hugging Face hub.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

mod error;

pub use error::HubError;

/// The file that lists the shards of a model that was saved in several files.
pub const INDEX_NAME: &str = "model.safetensors.index.json";

/// The file of a model that was saved in one.
pub const SINGLE_NAME: &str = "model.safetensors";

/// The largest index in bytes. An entry takes some 100 bytes, so this is more than 600,000 tensors.
pub const MAX_INDEX_LEN: u64 = 64 << 20;

/// The most entries of a directory that are looked at; snapshots have some tens.
pub const MAX_DIR_ENTRIES: usize = 100_000;

/// The longest file name in an index, in bytes: the kernel takes no longer path.
const MAX_NAME_LEN: usize = 4095;

/// The marker of a diffusers pipeline: one directory per component, none of them the model.
const PIPELINE_NAME: &str = "model_index.json";

/// The files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Paths of the safetensors files, distinct, sorted, never empty. They exist; their headers were not looked at.
    pub files: Vec<PathBuf>,
    /// The file that holds each tensor, if there is an index. Every path in it is in `files`. The index is a claim: whether a tensor
    /// is in the file named for it, only the header shows.
    pub weight_map: Option<BTreeMap<String, PathBuf>>,
}

/// Finds the files of the model at `path`.
///
/// A file is taken as it is, whatever its name: its header decides. A directory is searched for [`SINGLE_NAME`], then
/// [`INDEX_NAME`], then for exactly one file that ends in `.safetensors`. Directories below it are not searched, so a diffusers
/// pipeline is refused. Symbolic links are followed, because a snapshot in the Hugging Face cache consists of links to blobs.
///
/// # Errors
/// Describes what was expected and what was found; nothing was opened but directories and the index.
pub fn resolve(path: &Path) -> Result<Layout, HubError> {
    let kind = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if kind.is_file() {
        return Ok(single(path.to_owned()));
    }
    if !kind.is_dir() {
        return Err(HubError::NotAFile {
            path: path.to_owned(),
        });
    }
    // As transformers does, should a directory hold both.
    let model = path.join(SINGLE_NAME);
    if is_file(&model)? {
        return Ok(single(model));
    }
    let index = path.join(INDEX_NAME);
    if is_file(&index)? {
        return sharded(path, &index);
    }
    let mut files = safetensors_files(path)?;
    match (files.pop(), files.is_empty()) {
        (Some(only), true) => Ok(single(only)),
        (last, _) => {
            files.extend(last);
            Err(HubError::NoModel {
                dir: path.to_owned(),
                found: files.iter().filter_map(|file| name_of(file)).collect(),
                pipeline: is_file(&path.join(PIPELINE_NAME))?,
                snapshot: snapshot_in(path),
            })
        }
    }
}

/// The SHA-256 that the Hugging Face cache claims for the content of `path`, if `path` leads into that cache.
///
/// The cache keeps large files as `blobs/<sha256>` and links snapshots to them. Anybody can give a file such a name, so this is
/// a claim about the content and no proof.
pub fn blob_claim(path: &Path) -> Option<[u8; 32]> {
    let blob = fs::canonicalize(path).ok()?;
    if blob.parent()?.file_name()? != "blobs" {
        return None;
    }
    let (pairs, rest) = blob.file_name()?.to_str()?.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() != 32 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = (lowercase_hex(*high)? << 4) | lowercase_hex(*low)?;
    }
    Some(digest)
}

fn lowercase_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn single(file: PathBuf) -> Layout {
    Layout {
        files: vec![file],
        weight_map: None,
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Names of the files that an index names, distinct, as the index has them: they may lead anywhere.
///
/// # Errors
/// When `text` is no index.
pub fn shards_of_index(text: &[u8]) -> Result<BTreeSet<String>, serde_json::Error> {
    let Index { weight_map } = serde_json::from_slice(text)?;
    Ok(weight_map.into_values().collect())
}

/// The layout that `index` describes, its names resolved in `dir`.
fn sharded(dir: &Path, index: &Path) -> Result<Layout, HubError> {
    let text = read_index(index)?;
    let Index { weight_map } =
        serde_json::from_slice(&text).map_err(|source| HubError::IndexJson {
            path: index.to_owned(),
            source,
        })?;
    if weight_map.is_empty() {
        return Err(HubError::IndexEmpty {
            path: index.to_owned(),
        });
    }
    let mut resolved = BTreeMap::new();
    for (tensor, file) in weight_map {
        let Some(inside) = relative_path(&file) else {
            return Err(HubError::UnsafeName {
                path: index.to_owned(),
                tensor,
                file,
            });
        };
        resolved.insert(tensor, dir.join(inside));
    }
    let files: BTreeSet<&PathBuf> = resolved.values().collect();
    let files: Vec<PathBuf> = files.into_iter().cloned().collect();
    for path in &files {
        if !is_file(path)? {
            return Err(HubError::MissingShard { path: path.clone() });
        }
    }
    Ok(Layout {
        files,
        weight_map: Some(resolved),
    })
}

fn read_index(path: &Path) -> Result<Vec<u8>, HubError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let mut text = Vec::new();
    // One byte more than allowed detects a file that is too long, also one that grows meanwhile
    file.take(MAX_INDEX_LEN + 1)
        .read_to_end(&mut text)
        .map_err(|source| unreadable(path, source))?;
    if text.len() as u64 > MAX_INDEX_LEN {
        return Err(HubError::IndexTooLarge {
            path: path.to_owned(),
            limit: MAX_INDEX_LEN,
        });
    }
    Ok(text)
}

/// `name` as a path below the directory of the index, without `.` components, so that one file has one path; `None` if it could
/// lead elsewhere, or would show on a terminal as something else.
pub fn relative_path(name: &str) -> Option<PathBuf> {
    if name.len() > MAX_NAME_LEN || name.contains(char::is_control) {
        return None;
    }
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    (!path.as_os_str().is_empty()).then_some(path)
}

/// Returns true if `name` is written as [`relative_path`] gives it.
pub fn is_plain_path(name: &str) -> bool {
    relative_path(name).is_some_and(|path| path.as_os_str() == name)
}

/// The files in `dir` that end in `.safetensors`, sorted. Hidden ones are left out: they are what tools leave behind.
fn safetensors_files(dir: &Path) -> Result<Vec<PathBuf>, HubError> {
    let entries = fs::read_dir(dir).map_err(|source| unreadable(dir, source))?;
    let mut files = Vec::new();
    for (seen, entry) in entries.enumerate() {
        if seen >= MAX_DIR_ENTRIES {
            return Err(HubError::DirTooLarge {
                dir: dir.to_owned(),
                limit: MAX_DIR_ENTRIES,
            });
        }
        let path = entry.map_err(|source| unreadable(dir, source))?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension() == Some(OsStr::new("safetensors")) && is_file(&path)? {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The snapshot that a model's folder of a Hugging Face cache means by `main`, or else its latest one.
fn snapshot_in(dir: &Path) -> Option<PathBuf> {
    let snapshots = dir.join("snapshots");
    let main = main_revision(dir).and_then(|revision| relative_path(&revision));
    if let Some(named) = main.map(|revision| snapshots.join(revision))
        && named.is_dir()
    {
        return Some(named);
    }
    let entries = fs::read_dir(&snapshots).ok()?.take(MAX_DIR_ENTRIES);
    let snapshots = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
        Some((metadata.modified().ok()?, path))
    });
    snapshots.max().map(|(_, path)| path)
}

/// The revision in `refs/main` of a model's folder.
fn main_revision(dir: &Path) -> Option<String> {
    const REVISION_BYTES: u64 = 256;
    let file = File::open(dir.join("refs/main")).ok()?;
    let mut text = String::new();
    file.take(REVISION_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Returns true if `path` leads to a file. A link into nowhere does not: the cache has such links
/// to deleted blobs.
fn is_file(path: &Path) -> Result<bool, HubError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(source) => Err(unreadable(path, source)),
    }
}

fn unreadable(path: &Path, source: io::Error) -> HubError {
    HubError::Io {
        path: path.to_owned(),
        source,
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
