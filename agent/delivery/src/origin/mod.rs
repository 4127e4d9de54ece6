//! Sources of models: what files they have, and ranges of them.

mod aws_profile;
mod bucket;
mod docker_config;
mod folder;
mod http;
mod hub;
pub(crate) mod model_config;
pub(crate) mod registry;
pub(crate) mod registry_upload;
mod retry_later;
mod s3_checksums;
mod web;

use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::checksum::Promise;
use crate::error::{PullError, Trouble};
use crate::listing::{Listing, RemoteFile};
use crate::name::SourceName;
use crate::options::PullOptions;

/// Bytes of a range as they come. The last may be missing, or too many.
pub(crate) type Body = BoxStream<'static, Result<Bytes, Trouble>>;

/// A file to be written to a source.
#[derive(Debug, Clone)]
pub(crate) struct SmallFile {
    /// Path below the source.
    pub(crate) path: String,
    /// Address, as of [`RemoteFile::address`].
    pub(crate) address: String,
    pub(crate) bytes: Vec<u8>,
}

/// A source with its client.
#[derive(Debug)]
pub(crate) enum Origin {
    Hub(hub::Hub),
    Bucket(bucket::Bucket),
    Registry(registry::Registry),
    Web(web::Web),
    Folder(folder::Folder),
}

impl Origin {
    /// The source of this name. Asks for nothing yet.
    pub(crate) fn new(name: &SourceName, options: &PullOptions) -> Result<Self, PullError> {
        Ok(match name {
            SourceName::Hub { repo, revision } => {
                Self::Hub(hub::Hub::from_env(repo, revision, options)?)
            }
            SourceName::Bucket(url) => Self::Bucket(bucket::Bucket::from_env(url, options)?),
            SourceName::Registry {
                registry,
                repo,
                reference,
            } => {
                let pull = registry::PULL;
                let registry =
                    registry::Registry::from_env(pull, registry, repo, reference, options);
                Self::Registry(registry?)
            }
            SourceName::Web(url) => Self::Web(web::Web::from_env(url, options)?),
            SourceName::Folder(path) => Self::Folder(folder::Folder::new(path)),
        })
    }

    /// The files at the source. One attempt.
    pub(crate) async fn list(&self) -> Result<Listing, Trouble> {
        match self {
            Self::Hub(hub) => hub.list().await,
            Self::Bucket(bucket) => bucket.list().await,
            Self::Registry(registry) => registry.list().await,
            Self::Web(web) => web.list().await,
            Self::Folder(folder) => Ok(folder.list()?),
        }
    }

    /// Writes small files beside those of the source, by their paths. One attempt.
    pub(crate) async fn put(&self, name: &str, files: &[SmallFile]) -> Result<(), Trouble> {
        match self {
            Self::Hub(hub) => hub.put(files).await,
            Self::Bucket(bucket) => bucket.put(files).await,
            Self::Folder(_) => Ok(folder::Folder::put(files)?),
            Self::Registry(_) | Self::Web(_) => Err(Trouble::Final(PullError::NotWritable {
                source_name: name.to_owned(),
            })),
        }
    }

    /// Digest or checksum of a file that its listing does not have. One attempt.
    pub(crate) async fn promise(&self, file: &RemoteFile) -> Result<Promise, Trouble> {
        match self {
            Self::Bucket(bucket) => bucket.promise(file).await,
            Self::Hub(_) | Self::Registry(_) | Self::Web(_) | Self::Folder(_) => {
                Ok(Promise::default())
            }
        }
    }

    /// Returns true if [`promise`](Self::promise) has anything to ask.
    pub(crate) fn has_promises(&self) -> bool {
        matches!(self, Self::Bucket(bucket) if bucket.has_promises())
    }

    /// End of the part of a file that one request from `at` on can bring.
    pub(crate) fn part_end(&self, file: &RemoteFile, at: u64) -> u64 {
        match self {
            Self::Registry(registry) => registry.part_end(file, at),
            Self::Hub(_) | Self::Bucket(_) | Self::Web(_) | Self::Folder(_) => file.size,
        }
    }

    /// The bytes of `range` of a file, within one of its parts. One attempt, up to the beginning of the answer.
    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        match self {
            Self::Hub(hub) => hub.open(file, range).await,
            Self::Bucket(bucket) => bucket.open(file, range).await,
            Self::Registry(registry) => registry.open(file, range).await,
            Self::Web(web) => web.open(file, range).await,
            Self::Folder(_) => Ok(folder::Folder::open(file, range)?),
        }
    }
}
