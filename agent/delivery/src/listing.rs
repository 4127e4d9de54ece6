//! Files at a source.

use std::time::SystemTime;

use tetris_folder::MAX_FILES;
use tetris_loader::hub;
use tetris_store_layout::{IdentityBy, IdentityKey, ManifestKind};

use crate::checksum::Checksum;
use crate::error::PullError;

/// A file at a source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteFile {
    /// Path below the source, with `/` between its parts.
    pub path: String,
    /// Length in bytes.
    pub size: u64,
    /// SHA-256 that the source promises.
    pub sha256: Option<[u8; 32]>,
    /// Checksum that the source promises. It names no content, as a digest does, but shows damage.
    pub checksum: Option<Checksum>,
    /// The name of this very content at the file's address, e.g. a commit or a strong entity tag.
    pub version: Option<String>,
    /// Time of its last change.
    pub modified: Option<SystemTime>,
    /// Address for people and for identities, without secrets.
    pub address: String,
}

impl RemoteFile {
    /// As what the file is kept.
    pub(crate) fn kind(&self) -> ManifestKind {
        if self.path.ends_with(".safetensors") {
            ManifestKind::Safetensors
        } else {
            ManifestKind::File
        }
    }

    /// The identities that the file has by its source, the surest first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = IdentityKey> {
        let size = self.size;
        let sha256 = self
            .sha256
            .map(|digest| IdentityBy::Sha256 { digest, size });
        let source = self
            .source_digest()
            .map(|digest| IdentityBy::Source { digest, size });
        let kind = self.kind();
        sha256
            .into_iter()
            .chain(source)
            .map(move |by| IdentityKey { kind, by })
    }

    /// Digest of address and version (LAYOUT.md 3.3); `None` where the source names no version.
    pub(crate) fn source_digest(&self) -> Option<[u8; 32]> {
        let version = self.version.as_deref()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"tetris source v1\0");
        hasher.update(self.address.as_bytes());
        hasher.update(b"\0");
        hasher.update(version.as_bytes());
        Some(*hasher.finalize().as_bytes())
    }
}

/// An archive of files at a source: a layer of an image or artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    /// The archive as a file. Its path is its digest.
    pub(crate) file: RemoteFile,
    pub(crate) compression: Compression,
    /// Folder of the archive that has the model; empty for all of it.
    pub(crate) root: &'static str,
    /// Address of the files in it, up to their paths.
    pub(crate) base: String,
}

/// Compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The files at a source, checked.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The source's name for this state of all files, e.g. a commit.
    pub(crate) revision: Option<String>,
    /// In the order of their paths, which are distinct.
    pub(crate) files: Vec<RemoteFile>,
    /// Archives with more files, those whose files win last.
    pub(crate) archives: Vec<Archive>,
}

impl Listing {
    /// Checks what a source has listed.
    ///
    /// # Errors
    /// When there are too many files, a path leads elsewhere, or two are the same.
    pub(crate) fn new(
        source: &str,
        revision: Option<String>,
        mut files: Vec<RemoteFile>,
    ) -> Result<Self, PullError> {
        if files.len() > MAX_FILES {
            return Err(PullError::TooManyFiles {
                source_name: source.to_owned(),
                limit: MAX_FILES,
            });
        }
        for file in &files {
            require_plain(source, &file.path)?;
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let same = files.windows(2).find_map(|pair| match pair {
            [first, second] if first.path == second.path => Some(first),
            _ => None,
        });
        if let Some(file) = same {
            return Err(bad_path(source, &file.path, "it is listed twice"));
        }
        Ok(Self {
            revision,
            files,
            archives: Vec::new(),
        })
    }

    /// Sets the archives.
    pub(crate) fn with_archives(self, archives: Vec<Archive>) -> Self {
        Self { archives, ..self }
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&RemoteFile> {
        let index = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path));
        self.files.get(index.ok()?)
    }
}

/// Checks that a path stays below the source.
pub(crate) fn require_plain(source: &str, path: &str) -> Result<(), PullError> {
    if hub::is_plain_path(path) {
        return Ok(());
    }
    let problem = "it leads out of the folder, or is no plain path";
    Err(bad_path(source, path, problem))
}

fn bad_path(source: &str, path: &str, problem: &'static str) -> PullError {
    PullError::Path {
        source_name: source.to_owned(),
        path: path.escape_default().to_string(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> RemoteFile {
        RemoteFile {
            path: path.to_owned(),
            size: 1,
            sha256: None,
            checksum: None,
            version: None,
            modified: None,
            address: format!("s3://b/{path}"),
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_or_repeat_are_refused() {
        for path in [
            "../x",
            "/x",
            "a/../../x",
            "a//b",
            "./a",
            "a/",
            "",
            "a\nb",
            "\u{1b}[2J",
        ] {
            assert!(
                Listing::new("s", None, vec![file(path)]).is_err(),
                "{path:?}"
            );
        }
        assert!(Listing::new("s", None, vec![file("a"), file("a")]).is_err());
        let many = (0..=MAX_FILES).map(|number| file(&number.to_string()));
        assert!(Listing::new("s", None, many.collect()).is_err());
        let listing = Listing::new("s", None, vec![file("b/c"), file("a")]).unwrap();
        assert_eq!(listing.file("b/c").unwrap().path, "b/c");
        assert_eq!(listing.file("b"), None);
    }

    #[test]
    fn a_file_without_a_version_has_no_identity_and_others_differ_by_address_and_version() {
        assert_eq!(file("a").keys().count(), 0);
        let version = |path: &str, version: &str| RemoteFile {
            version: Some(version.to_owned()),
            ..file(path)
        };
        let mut digests = [version("a", "1"), version("a", "2"), version("b", "1")]
            .map(|file| file.source_digest().unwrap())
            .to_vec();
        digests.dedup();
        assert_eq!(digests.len(), 3);
    }
}
