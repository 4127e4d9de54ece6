//! The list of files of an artifact whose layers are parts of files (docs/guides/pull.md).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tetris_store_layout::Digest;
use thiserror::Error;

/// Version of the list.
const VERSION: u32 = 1;
/// Most parts of all files together: no manifest that a registry takes names more layers.
const MAX_PARTS: usize = 65_536;

/// The list as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    files: Vec<ModelFile>,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelFile {
    /// Path below the model.
    pub(crate) path: String,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Time of its last change at its first source, in seconds since the epoch; 0 if it is not known.
    #[serde(default)]
    pub(crate) modified: u64,
    pub(crate) sha256: FileDigest,
    /// Indices of its layers, in order.
    pub(crate) layers: Vec<usize>,
}

/// SHA-256 of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileDigest(pub(crate) [u8; 32]);

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl Serialize for FileDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digest: Digest = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(digest.0))
    }
}

impl ModelFile {
    /// Time of its last change at its first source.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let since = (self.modified > 0).then(|| Duration::from_secs(self.modified))?;
        UNIX_EPOCH.checked_add(since)
    }
}

/// A part of a file, which is a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePart {
    /// Offset in the file.
    pub(crate) at: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Digest of the layer.
    pub(crate) digest: Arc<str>,
}

/// The reason that a list of files is not valid.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    #[error("expected version {VERSION}, found {0}")]
    Version(u32),
    #[error("expected at most {MAX_PARTS} parts of files, found more")]
    TooManyParts,
    #[error("`{path}` names layer {layer} of {layers}")]
    Layer {
        path: String,
        layer: usize,
        layers: usize,
    },
    #[error("`{path}` has {expected} bytes, its layers {found}")]
    Size {
        path: String,
        expected: u64,
        found: u64,
    },
}

/// The files with their parts.
#[derive(Debug)]
pub(crate) struct ModelConfig {
    pub(crate) files: Vec<(ModelFile, Arc<[FilePart]>)>,
}

impl ModelConfig {
    /// Media type of the list, which is the configuration of the artifact.
    pub(crate) const MEDIA_TYPE: &str = "application/vnd.tetris.model.config.v1+json";

    /// The bytes of a list of these files.
    pub(crate) fn encode(files: Vec<ModelFile>) -> Result<Vec<u8>, ConfigError> {
        let version = VERSION;
        Ok(serde_json::to_vec(&Written { version, files })?)
    }

    /// The list in `bytes`, of an artifact whose layers have these digests and lengths.
    pub(crate) fn decode(bytes: &[u8], layers: &[(&str, u64)]) -> Result<Self, ConfigError> {
        let written: Written = serde_json::from_slice(bytes)?;
        if written.version != VERSION {
            return Err(ConfigError::Version(written.version));
        }
        let parts = written.files.iter().map(|file| file.layers.len());
        if parts.fold(0, usize::saturating_add) > MAX_PARTS {
            return Err(ConfigError::TooManyParts);
        }
        let digests: Vec<Arc<str>> = layers.iter().map(|(digest, _)| (*digest).into()).collect();
        let with_parts = |file: ModelFile| {
            let path = || file.path.escape_default().to_string();
            let mut at: u64 = 0;
            let mut parts = Vec::with_capacity(file.layers.len());
            for &layer in &file.layers {
                let (Some(digest), Some((_, len))) = (digests.get(layer), layers.get(layer)) else {
                    return Err(ConfigError::Layer {
                        path: path(),
                        layer,
                        layers: layers.len(),
                    });
                };
                let (digest, len) = (Arc::clone(digest), *len);
                parts.push(FilePart { at, len, digest });
                at = at.saturating_add(len);
            }
            // Of no part, since a search for a byte would lead to it.
            parts.retain(|part| part.len > 0);
            if at != file.size {
                return Err(ConfigError::Size {
                    path: path(),
                    expected: file.size,
                    found: at,
                });
            }
            Ok((file, parts.into()))
        };
        let files = written.files.into_iter().map(with_parts);
        Ok(Self {
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64, layers: &[usize]) -> ModelFile {
        ModelFile {
            path: "m".to_owned(),
            size,
            modified: 7,
            sha256: FileDigest([1; 32]),
            layers: layers.to_vec(),
        }
    }

    fn decoded(files: Vec<ModelFile>) -> Result<ModelConfig, ConfigError> {
        let layers = [("a", 3), ("b", 0), ("c", u64::MAX)];
        ModelConfig::decode(&ModelConfig::encode(files).unwrap(), &layers)
    }

    #[test]
    fn files_have_their_parts_one_behind_the_other() {
        let files = vec![file(6, &[0, 1, 0]), file(0, &[])];
        let config = decoded(files.clone()).unwrap();
        assert_eq!(config.files[0].0, files[0]);
        let places: Vec<_> = config.files[0].1.iter().map(|part| part.at).collect();
        assert_eq!(places, [0, 3]);
        assert!(config.files[1].1.is_empty());
    }

    #[test]
    fn lists_that_disagree_with_their_layers_are_refused() {
        for (size, layers) in [(3, &[3][..]), (4, &[0]), (5, &[2, 2]), (1, &[])] {
            assert!(decoded(vec![file(size, layers)]).is_err(), "{size}");
        }
        let many = decoded(vec![file(0, &[1; MAX_PARTS + 1])]);
        assert!(matches!(many, Err(ConfigError::TooManyParts)));
        let newer = ModelConfig::decode(br#"{"version": 2, "files": []}"#, &[]);
        assert!(matches!(newer, Err(ConfigError::Version(2))));
        assert!(ModelConfig::decode(b"{}", &[]).is_err());
    }
}
