//! Uploads to OCI registries: blobs in one request each, and the manifest that names them.

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Body, Method};
use url::Url;

use super::registry::Registry;
use crate::error::{PullError, Trouble};

/// Media type of the manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

impl Registry {
    /// The artifact's name with the digest of its manifest.
    pub(crate) fn at_digest(&self, digest: &str) -> String {
        format!("{}@{digest}", self.name())
    }

    /// Checks that the registry answers and takes the login.
    pub(crate) async fn check(&self) -> Result<(), Trouble> {
        let check = async |headers| {
            let answer = self.client.exists(&self.base, headers).await?;
            answer.then_some(()).ok_or_else(|| {
                Trouble::Final(self.invalid("no registry of OCI's protocol answers there"))
            })
        };
        self.authorized(&self.base, check).await
    }

    /// Returns true if the repository has a blob.
    pub(crate) async fn has(&self, digest: &str) -> Result<bool, Trouble> {
        let url = self.url("blobs", digest);
        let exists = async |headers| self.client.exists(&url, headers).await;
        self.authorized(&self.base, exists).await
    }

    /// Begins the upload of a blob, and returns its address.
    pub(crate) async fn begin_upload(&self) -> Result<Url, Trouble> {
        let mut url = self.url("blobs", "uploads");
        if let Ok(mut path) = url.path_segments_mut() {
            path.push("");
        }
        let begin = async |headers| {
            let begun = self.client.send_body(Method::POST, &url, headers, "");
            begun.await
        };
        let begun = self.authorized(&self.base, begin).await?;
        let place = begun.get(LOCATION).and_then(|place| place.to_str().ok());
        let place = place.and_then(|place| url.join(place).ok());
        Ok(place.ok_or_else(|| self.invalid("it names no place for an upload"))?)
    }

    /// Sends a blob to the address of its upload. One attempt.
    pub(crate) async fn upload(
        &self,
        place: &Url,
        digest: &str,
        len: u64,
        body: Body,
    ) -> Result<(), Trouble> {
        let mut place = place.clone();
        place.query_pairs_mut().append_pair("digest", digest);
        // Credentials are for the registry; an address elsewhere has what it needs in itself.
        let is_here = place.origin() == self.base.origin();
        let mut headers = if is_here {
            self.known_authorization()
        } else {
            HeaderMap::new()
        };
        let octets = HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, octets);
        headers.insert(CONTENT_LENGTH, len.into());
        let sent = self.client.send_body(Method::PUT, &place, headers, body);
        match sent.await {
            // The next attempt asks for a token first.
            Err(Trouble::Final(PullError::Refused { status, .. })) if status.starts_with("401") => {
                Err(Trouble::passing("the token has expired"))
            }
            sent => sent.map(drop),
        }
    }

    /// Puts the manifest at the tag.
    pub(crate) async fn put_manifest(&self, manifest: &[u8]) -> Result<(), Trouble> {
        let url = self.url("manifests", &self.reference);
        let put = async |mut headers: HeaderMap| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
            let put = self
                .client
                .send_body(Method::PUT, &url, headers, manifest.to_vec());
            put.await.map(drop)
        };
        self.authorized(&self.base, put).await
    }

    /// The error of an artifact that has more than a manifest can name.
    pub(crate) fn too_large(&self, found: usize, limit: usize) -> PullError {
        self.invalid(format!(
            "expected a manifest of at most {limit} bytes, found {found}: the model has too many files"
        ))
    }
}
