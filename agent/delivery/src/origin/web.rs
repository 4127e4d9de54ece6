//! Files of a web server.

use std::ops::Range;

use futures::{StreamExt, TryStreamExt, stream};
use tetris_loader::hub::{self, MAX_INDEX_LEN};
use url::Url;

use super::Body;
use super::http::{HttpClient, Remedies, bearer, is_of_this_machine};
use crate::error::{PullError, Trouble};
use crate::listing::{Listing, RemoteFile};
use crate::name::shown;
use crate::options::PullOptions;

/// A token for web servers, sent as `Authorization: Bearer`.
const TOKEN: &str = "TETRIS_PULL_TOKEN";
/// The end of the name of an index.
const INDEX: &str = ".safetensors.index.json";
/// Files asked for their length at once.
const PROBES: usize = 8;

const REMEDIES: Remedies = Remedies {
    unauthorized: "set TETRIS_PULL_TOKEN to a token that may read it",
    forbidden: "the token in TETRIS_PULL_TOKEN may not read it, or a signed address has expired",
    missing: "check the address",
};

/// A file of a web server, or the files of an index.
#[derive(Debug)]
pub(crate) struct Web {
    client: HttpClient,
    url: Url,
    token: Option<String>,
}

impl Web {
    pub(crate) fn from_env(url: &Url, options: &PullOptions) -> Result<Self, PullError> {
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let may_send = url.scheme() == "https" || is_of_this_machine(url);
        if token.is_some() && !may_send {
            tracing::warn!("{TOKEN} is not sent to a server without TLS");
        }
        Ok(Self {
            client: HttpClient::new(url, REMEDIES, options)?,
            url: url.clone(),
            token: token.filter(|_| may_send),
        })
    }

    pub(crate) async fn list(&self) -> Result<Listing, Trouble> {
        let name = self.url.path().rsplit('/').next().unwrap_or_default();
        let mut names = vec![name.to_owned()];
        if name.ends_with(INDEX) {
            let headers = bearer(self.token.as_deref());
            let index = self.client.whole(&self.url, headers, MAX_INDEX_LEN).await?;
            let shards = hub::shards_of_index(&index).map_err(|error| PullError::Listing {
                address: shown(&self.url),
                problem: format!("it is no index of a model: {error}"),
            })?;
            names.extend(shards);
        }
        let files = stream::iter(names)
            .map(|name| self.file(name))
            .buffer_unordered(PROBES);
        let files: Vec<_> = files.try_collect().await?;
        Ok(Listing::new(&shown(&self.url), None, files)?)
    }

    async fn file(&self, name: String) -> Result<RemoteFile, Trouble> {
        let url = self.url_of(&name)?;
        let probe = self
            .client
            .probe(&url, bearer(self.token.as_deref()))
            .await?;
        Ok(RemoteFile {
            path: name,
            size: probe.size,
            sha256: None,
            checksum: None,
            version: probe.version,
            modified: None,
            address: shown(&url),
        })
    }

    /// The address of a file beside the named one.
    fn url_of(&self, name: &str) -> Result<Url, PullError> {
        let mut url = self.url.clone();
        let is_plain = hub::is_plain_path(name);
        if !is_plain {
            return Err(PullError::Path {
                source_name: shown(&self.url),
                path: name.escape_default().to_string(),
                problem: "it leads out of the folder, or is no plain path",
            });
        }
        if self.url.path().rsplit('/').next() != Some(name)
            && let Ok(mut parts) = url.path_segments_mut()
        {
            parts.pop().extend(name.split('/'));
        }
        Ok(url)
    }

    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        let url = self.url_of(&file.path)?;
        let (headers, version) = (bearer(self.token.as_deref()), file.version.as_deref());
        let part = self.client.part(&url, headers, range, file.size, version);
        Ok(part.await?.body)
    }
}
