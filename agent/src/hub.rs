//! From the path a user names to the safetensors files behind it, for the directory layouts of the Hugging Face hub.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

/// The file that lists the shards of a model that was saved in several files.
pub const INDEX_NAME: &str = "model.safetensors.index.json";

/// The file of a model that was saved in one.
pub const SINGLE_NAME: &str = "model.safetensors";

/// The largest index in bytes. An entry takes some 100 bytes, so this is more than 600,000 tensors.
pub const MAX_INDEX_LEN: u64 = 64 << 20;

/// The most entries of a directory that are looked at; snapshots have some tens.
pub const MAX_DIR_ENTRIES: usize = 100_000;

/// The most names that an error lists.
const SHOWN_NAMES: usize = 8;

/// The marker of a diffusers pipeline: one directory per component, none of them the model.
const PIPELINE_NAME: &str = "model_index.json";

/// The files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Paths of the safetensors files, distinct, sorted, never empty. They exist; their headers were not looked at.
    pub files: Vec<PathBuf>,
    /// The file that holds each tensor, if there is an index. Every path in it is in `files`. The index is a claim: whether a tensor
    /// is in the file that is named for it, only the header shows.
    pub weight_map: Option<BTreeMap<String, PathBuf>>,
}

/// Why a path does not lead to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Something could not be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path is a socket, a pipe or a device.
    #[error("expected a file or a directory, found something else at `{}`", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The index exceeds [`MAX_INDEX_LEN`].
    #[error("expected an index of at most {limit} bytes, found more in `{}`", path.display())]
    IndexTooLarge {
        /// The index.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The index is not what an index should be.
    #[error("expected a JSON map with a `weight_map` from tensors to files in `{}`; download it again", path.display())]
    IndexJson {
        /// The index.
        path: PathBuf,
        /// What was found instead.
        source: serde_json::Error,
    },
    /// The index names no tensor.
    #[error("expected tensors in the `weight_map` of `{}`, found none; download it again", path.display())]
    IndexEmpty {
        /// The index.
        path: PathBuf,
    },
    /// The index names a file outside its directory, or no file at all.
    #[error(
        "expected file names inside the directory in `{}`, found {file:?} for tensor {tensor:?}; do not use this model",
        path.display()
    )]
    UnsafeName {
        /// The index.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file named for it.
        file: String,
    },
    /// A file that the index names is not there.
    #[error("expected the file `{}`, which `{INDEX_NAME}` names, found none; the download is incomplete, repeat it", path.display())]
    MissingShard {
        /// The missing file.
        path: PathBuf,
    },
    /// The directory has no model, or several.
    #[error(
        "expected `{INDEX_NAME}`, `{SINGLE_NAME}` or exactly one `*.safetensors` file in `{}`, found {}; {}",
        dir.display(), listed(found), if *pipeline { PIPELINE_STEP } else { FILE_STEP }
    )]
    NoModel {
        /// The directory.
        dir: PathBuf,
        /// The names of the safetensors files in it, sorted.
        found: Vec<String>,
        /// Whether it is a diffusers pipeline.
        pipeline: bool,
    },
    /// The directory has more entries than [`MAX_DIR_ENTRIES`].
    #[error("expected at most {limit} entries in `{}`, found more; name the model's file instead", dir.display())]
    DirTooLarge {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
}

const FILE_STEP: &str = "name the file to load";
const PIPELINE_STEP: &str = "this is a diffusers pipeline, which is not supported as a whole: name the directory or the file of one component";

/// Finds the files of the model at `path`.
///
/// A file is taken as it is, whatever its name: its header decides. A directory is searched for [`SINGLE_NAME`], then
/// [`INDEX_NAME`], then for exactly one file that ends in `.safetensors`. Directories below it are not searched, so a diffusers
/// pipeline is refused. Symbolic links are followed, because a snapshot in the Hugging Face cache consists of links to blobs.
///
/// # Errors
/// Says what was expected and what was found; nothing was opened but directories and the index.
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
    let mut found = safetensors_files(path)?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(single(only)),
        (last, _) => {
            found.extend(last);
            Err(HubError::NoModel {
                dir: path.to_owned(),
                found: found.iter().filter_map(|file| name_of(file)).collect(),
                pipeline: is_file(&path.join(PIPELINE_NAME))?,
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
        let Some(inside) = inside(&file) else {
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
    // One byte more than allowed tells a file that is too long, also one that grows meanwhile
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
/// lead elsewhere.
fn inside(name: &str) -> Option<PathBuf> {
    if name.contains('\0') {
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

/// Whether `path` leads to a file. A link into nowhere does not: the cache has such links to blobs that were deleted.
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

/// Names for an error: quoted, because whoever fills the directory chooses them.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none of them".to_owned();
    }
    let mut shown: Vec<String> = names
        .iter()
        .take(SHOWN_NAMES)
        .map(|name| format!("{name:?}"))
        .collect();
    if names.len() > SHOWN_NAMES {
        shown.push(format!("{} more", names.len() - SHOWN_NAMES));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn index(map: &str) -> String {
        format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{map}}}"#)
    }

    #[test]
    fn a_file_is_taken_whatever_its_name() {
        let dir = model_dir(&[("weights.bin", "x")]);
        let path = dir.path().join("weights.bin");
        let layout = resolve(&path).unwrap();
        assert_eq!(layout, single(path));
    }

    #[test]
    fn an_index_gives_sorted_distinct_shards() {
        let map = r#"{"c":"s-2.safetensors","a":"s-1.safetensors","b":"./s-2.safetensors","d":"sub/s-3.safetensors"}"#;
        let dir = model_dir(&[
            (INDEX_NAME, &index(map)),
            ("other.safetensors", "not named by the index"),
            ("s-1.safetensors", ""),
            ("s-2.safetensors", ""),
            ("sub/s-3.safetensors", ""),
        ]);
        let layout = resolve(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(
            layout.files,
            [
                at("s-1.safetensors"),
                at("s-2.safetensors"),
                at("sub/s-3.safetensors")
            ]
        );
        let weight_map = layout.weight_map.unwrap();
        assert_eq!(weight_map.len(), 4);
        assert_eq!(weight_map["b"], at("s-2.safetensors"));
    }

    #[test]
    fn the_single_file_comes_before_others() {
        let dir = model_dir(&[
            (SINGLE_NAME, ""),
            (INDEX_NAME, "left over"),
            ("adapter.safetensors", ""),
        ]);
        let layout = resolve(dir.path()).unwrap();
        assert_eq!(layout, single(dir.path().join(SINGLE_NAME)));
    }

    #[test]
    fn a_lone_safetensors_file_is_taken_and_hidden_ones_are_not_counted() {
        let dir = model_dir(&[
            ("diffusion_pytorch_model.safetensors", ""),
            ("._diffusion_pytorch_model.safetensors", ""),
            ("config.json", "{}"),
        ]);
        let layout = resolve(dir.path()).unwrap();
        let only = dir.path().join("diffusion_pytorch_model.safetensors");
        assert_eq!(layout, single(only));
    }

    #[test]
    fn several_files_without_an_index_are_listed() {
        let names: Vec<String> = (0..10).map(|i| format!("{i}.safetensors")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let dir = model_dir(&files);
        let error = resolve(dir.path()).unwrap_err();
        assert!(
            matches!(&error, HubError::NoModel { found, pipeline: false, .. } if *found == names)
        );
        let text = error.to_string();
        assert!(
            text.contains(r#""7.safetensors", 2 more; name the file"#),
            "{text}"
        );
    }

    #[test]
    fn a_pipeline_is_refused_with_the_reason() {
        let dir = model_dir(&[
            (PIPELINE_NAME, "{}"),
            ("unet/diffusion_pytorch_model.safetensors", ""),
        ]);
        let text = resolve(dir.path()).unwrap_err().to_string();
        assert!(text.contains("found none of them"), "{text}");
        assert!(
            text.contains("diffusers pipeline, which is not supported"),
            "{text}"
        );
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in [
            "/etc/passwd",
            "../x.safetensors",
            "a/../../x",
            "",
            ".",
            "a\\u0000b",
        ] {
            let map = format!(r#"{{"w":"{name}"}}"#);
            let dir = model_dir(&[(INDEX_NAME, &index(&map))]);
            let error = resolve(dir.path()).unwrap_err();
            assert!(
                matches!(&error, HubError::UnsafeName { tensor, .. } if tensor == "w"),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn a_missing_shard_is_named() {
        let map = r#"{"a":"here.safetensors","b":"gone.safetensors"}"#;
        let dir = model_dir(&[(INDEX_NAME, &index(map)), ("here.safetensors", "")]);
        let error = resolve(dir.path()).unwrap_err();
        let gone = dir.path().join("gone.safetensors");
        assert!(matches!(error, HubError::MissingShard { path } if path == gone));
    }

    #[test]
    fn an_index_that_is_no_index_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"weight_map":[]}"#,
            r#"{"weight_map":{"a":1}}"#,
        ] {
            let dir = model_dir(&[(INDEX_NAME, text)]);
            let error = resolve(dir.path()).unwrap_err();
            assert!(
                matches!(error, HubError::IndexJson { .. }),
                "{text}: {error}"
            );
        }
        let dir = model_dir(&[(INDEX_NAME, &index("{}"))]);
        let error = resolve(dir.path()).unwrap_err();
        assert!(matches!(error, HubError::IndexEmpty { .. }), "{error}");
    }

    #[test]
    fn an_index_beyond_the_limit_is_refused() {
        let dir = model_dir(&[(INDEX_NAME, "")]);
        let sparse = File::options()
            .write(true)
            .open(dir.path().join(INDEX_NAME));
        sparse.unwrap().set_len(MAX_INDEX_LEN + 1).unwrap();
        let error = resolve(dir.path()).unwrap_err();
        assert!(matches!(
            error,
            HubError::IndexTooLarge {
                limit: MAX_INDEX_LEN,
                ..
            }
        ));
    }

    #[test]
    fn a_path_to_nothing_and_a_socket_are_refused() {
        let dir = model_dir(&[]);
        let error = resolve(&dir.path().join("gone")).unwrap_err();
        assert!(
            matches!(error, HubError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
        );
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = resolve(&socket).unwrap_err();
        assert!(matches!(error, HubError::NotAFile { path } if path == socket));
    }

    #[test]
    fn a_snapshot_of_links_resolves_and_its_blob_claims_a_digest() {
        let digest = "00ff".repeat(16);
        let blob = format!("blobs/{digest}");
        let dir = model_dir(&[(blob.as_str(), ""), ("snapshots/main/config.json", "{}")]);
        let link = dir.path().join("snapshots/main").join(SINGLE_NAME);
        std::os::unix::fs::symlink(format!("../../{blob}"), &link).unwrap();
        let layout = resolve(&dir.path().join("snapshots/main")).unwrap();
        assert_eq!(layout, single(link.clone()));
        let claim = blob_claim(&link).unwrap();
        assert_eq!(claim[..4], [0x00, 0xff, 0x00, 0xff]);
    }

    #[test]
    fn only_sixty_four_lowercase_digits_below_blobs_are_a_claim() {
        let good = "0123456789abcdef".repeat(4);
        let upper = good.to_uppercase();
        let names = [
            (format!("blobs/{good}"), true),
            (format!("blobs/{upper}"), false),
            (format!("blobs/{good}00"), false),
            (format!("blobs/{}", &good[1..]), false),
            (format!("blobs/{}g", &good[1..]), false),
            (format!("other/{good}"), false),
        ];
        for (name, claims) in &names {
            let dir = model_dir(&[(name.as_str(), "")]);
            assert_eq!(
                blob_claim(&dir.path().join(name)).is_some(),
                *claims,
                "{name}"
            );
        }
        assert_eq!(blob_claim(Path::new("/nonexistent")), None);
    }

    #[test]
    fn a_link_to_a_deleted_blob_is_no_file() {
        let dir = model_dir(&[]);
        std::os::unix::fs::symlink("nowhere", dir.path().join(SINGLE_NAME)).unwrap();
        let error = resolve(dir.path()).unwrap_err();
        assert!(matches!(error, HubError::NoModel { found, .. } if found.is_empty()));
    }
}
