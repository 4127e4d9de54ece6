//! The checksums that S3 has of objects: `object_store` has no request for them, but signs one.

use std::time::Duration;

use object_store::Error;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::http::{HttpClient, Remedies};
use crate::checksum::Promise;
use crate::error::{PullError, Trouble};
use crate::options::PullOptions;

/// Header of a request for the checksum.
const MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");
/// Time that a signature counts: one attempt is shorter.
const VALID: Duration = Duration::from_mins(5);

const REMEDIES: Remedies = Remedies {
    unauthorized: "set the credentials of S3 in the environment",
    forbidden: "give the credentials the right to read the object",
    missing: "check bucket, folder and endpoint",
};

/// Asks for the checksums of a bucket's objects.
#[derive(Debug)]
pub(super) struct S3Checksums {
    signer: AmazonS3,
    /// False for a public bucket, which takes requests without a signature.
    signs: bool,
    client: HttpClient,
}

impl S3Checksums {
    /// Asks the bucket that `builder` describes.
    pub(super) fn new(builder: AmazonS3Builder, options: &PullOptions) -> Result<Self, PullError> {
        let value = |key| builder.get_config_value(&key);
        let signs = value(AmazonS3ConfigKey::SkipSignature).as_deref() != Some("true");
        let endpoint = value(AmazonS3ConfigKey::Endpoint);
        let endpoint = endpoint.and_then(|endpoint| Url::parse(&endpoint).ok());
        let base = endpoint.map_or_else(|| Url::parse("https://amazonaws.com"), Ok);
        let failed = |problem: String| PullError::Client {
            source_name: "s3://".to_owned(),
            problem,
        };
        let base = base.map_err(|error| failed(error.to_string()))?;
        // A signature without credentials is asked for only to learn the address, and not sent.
        let builder = if signs {
            builder
        } else {
            builder
                .with_access_key_id("none")
                .with_secret_access_key("none")
        };
        Ok(Self {
            signer: builder.build().map_err(|error| failed(error.to_string()))?,
            signs,
            client: HttpClient::new(&base, REMEDIES, options)?,
        })
    }

    /// The address for a question about an object, signed where the bucket wants that.
    pub(super) async fn address(&self, object: &Path) -> Result<Url, Error> {
        let mut options = SignedUrlOptions::default();
        options.signed_headers = headers();
        let signer = &self.signer;
        let mut url = signer
            .signed_url_opts(Method::HEAD, object, VALID, &options)
            .await?;
        if !self.signs {
            url.set_query(None);
        }
        Ok(url)
    }

    /// The digest or checksum of the object at such an address. One attempt.
    pub(super) async fn promise(&self, url: &Url) -> Result<Promise, Trouble> {
        let client = &self.client;
        let answer = client.send_body(Method::HEAD, url, headers(), "").await?;
        Ok(Promise::of_headers(&answer))
    }
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(MODE, HeaderValue::from_static("ENABLED"))])
}
