//! Repositories of the Hugging Face hub.
//!
//! The crate `hf-hub` downloads into its cache on disk only, and brings the client of Xet with its own
//! cache of chunks; a pull needs one listing, and ranges of files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::http::{HttpClient, Remedies, bearer};
use super::{Body, SmallFile};
use crate::error::{PullError, Trouble};
use crate::listing::{Listing, RemoteFile};
use crate::options::PullOptions;

const ENDPOINT: &str = "https://huggingface.co";
/// Largest listing in bytes: a file takes some 300.
const MAX_LISTING: u64 = 32 << 20;

/// Most bytes of a file in a commit; larger ones go to another store of the hub.
const MAX_COMMITTED: usize = 10 << 20;

const REMEDIES: Remedies = Remedies {
    unauthorized: "set HF_TOKEN to a token that may read the repository, and for a push write it, or check its name: the hub answers so for one that does not exist",
    forbidden: "accept the terms on the model's page with the account of HF_TOKEN; for a push, the token must be one that may write",
    missing: "check the name of the repository and the revision",
};

/// A repository at one revision.
#[derive(Debug)]
pub(crate) struct Hub {
    client: HttpClient,
    endpoint: Url,
    repo: String,
    revision: String,
    token: Option<String>,
    /// The commit of the listing.
    commit: Mutex<Option<String>>,
    /// Addresses of redirects, by file: they are asked directly until they expire.
    led_to: Mutex<HashMap<String, Url>>,
}

#[derive(Deserialize)]
struct ModelInfo {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Hub {
    /// The repository at the endpoint and with the token that the environment names, as other clients of
    /// the hub read it.
    pub(crate) fn from_env(
        repo: &str,
        revision: &str,
        options: &PullOptions,
    ) -> Result<Self, PullError> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let text = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| PullError::Client {
                source_name: format!("hf://{repo}"),
                problem: format!("expected an address in HF_ENDPOINT, found `{text}`"),
            })?;
        Ok(Self {
            client: HttpClient::new(&endpoint, REMEDIES, options)?,
            endpoint,
            repo: repo.to_owned(),
            revision: revision.to_owned(),
            token: variable("HF_TOKEN").or_else(token_of_file),
            commit: Mutex::new(None),
            led_to: Mutex::default(),
        })
    }

    fn url(&self, parts: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    fn repo_parts(&self) -> Vec<&str> {
        self.repo.split('/').collect()
    }

    pub(crate) async fn list(&self) -> Result<Listing, Trouble> {
        let mut parts = vec!["api", "models"];
        parts.extend(self.repo_parts());
        parts.extend(["revision", &self.revision]);
        let mut url = self.url(&parts);
        url.set_query(Some("blobs=true"));
        let headers = bearer(self.token.as_deref());
        let text = self.client.whole(&url, headers, MAX_LISTING).await?;
        let name = format!("hf://{}@{}", self.repo, self.revision);
        let invalid = |problem: String| PullError::Listing {
            address: name.clone(),
            problem,
        };
        let info: ModelInfo = serde_json::from_slice(&text)
            .map_err(|error| invalid(format!("the hub's answer is no listing: {error}")))?;
        let is_commit = info.sha.len() <= 64 && info.sha.bytes().all(|b| b.is_ascii_hexdigit());
        if info.sha.is_empty() || !is_commit {
            return Err(invalid("the hub's answer names no commit".to_owned()).into());
        }
        let files = info.siblings.into_iter().map(|sibling| {
            self.file(sibling)
                .map_err(|path| invalid(format!("the hub does not say how long `{path}` is")))
        });
        let files = files.collect::<Result<_, _>>()?;
        let listing = Listing::new(&name, Some(info.sha.clone()), files)?;
        *self.commit.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.sha);
        Ok(listing)
    }

    fn file(&self, sibling: Sibling) -> Result<RemoteFile, String> {
        let lfs = sibling.lfs.as_ref();
        let Some(size) = lfs.map(|lfs| lfs.size).or(sibling.size) else {
            return Err(sibling.rfilename.escape_default().to_string());
        };
        let mut parts = self.repo_parts();
        parts.extend(sibling.rfilename.split('/'));
        Ok(RemoteFile {
            size,
            sha256: lfs.and_then(|lfs| digest_of_hex(&lfs.sha256)),
            checksum: None,
            // The name of the content in git: another commit with the same file has it as well.
            version: sibling.blob_id,
            modified: None,
            address: self.url(&parts).to_string(),
            path: sibling.rfilename,
        })
    }

    /// Adds files to the revision in one commit on the listed one.
    pub(crate) async fn put(&self, files: &[SmallFile]) -> Result<(), Trouble> {
        let commit = self.commit();
        let summary = "Add sidecars of the weights";
        let header = json!({ "summary": summary, "description": "", "parentCommit": commit });
        let mut lines = vec![json!({ "key": "header", "value": header })];
        for file in files {
            if file.bytes.len() > MAX_COMMITTED {
                return Err(Trouble::Final(PullError::Listing {
                    address: file.address.clone(),
                    problem: format!(
                        "expected a sidecar of at most {MAX_COMMITTED} bytes, which is what the hub takes in a commit, found {}; upload the sidecar that `tetris hash` writes",
                        file.bytes.len()
                    ),
                }));
            }
            let content = BASE64_STANDARD.encode(&file.bytes);
            let value = json!({ "path": file.path, "encoding": "base64", "content": content });
            lines.push(json!({ "key": "file", "value": value }));
        }
        let body: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut parts = vec!["api", "models"];
        parts.extend(self.repo_parts());
        parts.extend(["commit", &self.revision]);
        let mut headers = bearer(self.token.as_deref());
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-ndjson"),
        );
        let url = self.url(&parts);
        let sent = self
            .client
            .send_body(Method::POST, &url, headers, body.concat());
        sent.await.map(drop)
    }

    fn commit(&self) -> Option<String> {
        let commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        commit.clone()
    }

    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        let known = self.led_to().get(&file.path).cloned();
        if let Some(url) = known {
            let part = self
                .client
                .part(&url, bearer(None), range.clone(), file.size, None);
            match part.await {
                Ok(part) => return Ok(part.body),
                // It has expired: the hub names another one.
                Err(Trouble::Final(PullError::Refused { .. })) => {
                    self.led_to().remove(&file.path);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        let commit = self.commit().unwrap_or_else(|| self.revision.clone());
        let mut parts = self.repo_parts();
        parts.extend(["resolve", &commit]);
        parts.extend(file.path.split('/'));
        let url = self.url(&parts);
        let headers = bearer(self.token.as_deref());
        let part = self
            .client
            .part(&url, headers, range, file.size, None)
            .await?;
        if part.url.origin() != url.origin() {
            self.led_to().insert(file.path.clone(), part.url);
        }
        Ok(part.body)
    }

    fn led_to(&self) -> std::sync::MutexGuard<'_, HashMap<String, Url>> {
        self.led_to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token that `hf auth login` leaves.
fn token_of_file() -> Option<String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let home = || {
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        Some(cache?.join("huggingface"))
    };
    let path = variable("HF_TOKEN_PATH")
        .or_else(|| Some(variable("HF_HOME").or_else(home)?.join("token")))?;
    let token = std::fs::read_to_string(path).ok()?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

fn digest_of_hex(text: &str) -> Option<[u8; 32]> {
    let digest: tetris_store_layout::Digest = text.parse().ok()?;
    Some(digest.0)
}
