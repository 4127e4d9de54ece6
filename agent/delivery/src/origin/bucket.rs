//! Objects of S3, Google Cloud Storage and Azure Blob Storage, by the crate `object_store`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, Certificate, ClientConfigKey, ClientOptions, Error, GetOptions, GetRange,
    ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use rustls::crypto::ring::default_provider;
use tetris_folder::MAX_FILES;
use tetris_tls_roots::roots_for;
use url::Url;

use super::retry_later::{PatientConnector, RetryLater};
use super::s3_checksums::S3Checksums;
use super::{Body, SmallFile, aws_profile};
use crate::checksum::Promise;
use crate::error::{PullError, Trouble, chain};
use crate::listing::{Listing, RemoteFile};
use crate::name::shown;
use crate::options::PullOptions;

/// A folder, or an object, of a bucket.
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    checksums: Option<S3Checksums>,
    folder: Path,
    name: String,
    /// The endpoint, if it is not the provider's: objects of two endpoints may have the same name.
    endpoint: String,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// The bucket with the credentials that the environment, or the profile of the AWS command, names.
    pub(crate) fn from_env(url: &Url, options: &PullOptions) -> Result<Self, PullError> {
        // For the process: a provider installed before is as good.
        let _installed = default_provider().install_default();
        let name = shown(url);
        let invalid = |problem: String| PullError::Client {
            source_name: name.clone(),
            problem,
        };
        let failed = |error: Error| invalid(error.to_string());
        let roots = roots_for("https:").map_err(|error| invalid(error.to_string()))?;
        let roots = roots
            .iter()
            .filter_map(|root| Certificate::from_der(root).ok());
        let client = ClientOptions::new()
            .with_no_system_certificates(true)
            // A range takes as long as it makes progress, which `fetch` looks after.
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(10))
            .with_pool_max_idle_per_host(options.connections.get());
        let client = roots.fold(client, ClientOptions::with_root_certificate);
        let mut endpoint = String::new();
        let mut checksums = None;
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(name.as_str());
                let builder = builder
                    .with_client_options(client)
                    .with_http_connector(PatientConnector)
                    .with_retry(retry());
                Arc::new(builder.build().map_err(failed)?)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(name.as_str());
                let builder = builder
                    .with_client_options(client)
                    .with_http_connector(PatientConnector)
                    .with_retry(retry());
                Arc::new(builder.build().map_err(failed)?)
            }
            _ => {
                let builder = aws_profile::complete(AmazonS3Builder::from_env());
                let key = AmazonS3ConfigKey::Endpoint;
                endpoint = builder.get_config_value(&key).unwrap_or_default();
                let key = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
                let allowed = builder.get_config_value(&key).as_deref() == Some("true");
                // As for the AWS command, an endpoint without TLS is meant.
                let allow_http = allowed || endpoint.starts_with("http://");
                let builder = builder
                    .with_url(name.as_str())
                    .with_client_options(client.with_allow_http(allow_http))
                    .with_http_connector(PatientConnector)
                    .with_retry(retry());
                checksums = Some(S3Checksums::new(builder.clone(), options)?);
                Arc::new(builder.build().map_err(failed)?)
            }
        };
        let folder = Path::from_url_path(url.path()).map_err(|error| failed(error.into()))?;
        Ok(Self {
            store,
            checksums,
            folder,
            name: name.clone(),
            endpoint,
        })
    }

    pub(crate) async fn list(&self) -> Result<Listing, Trouble> {
        let listed = self.store.list(Some(&self.folder)).take(MAX_FILES + 1);
        let objects: Vec<ObjectMeta> = listed
            .try_collect()
            .await
            .map_err(|error| Self::trouble(&self.name, error))?;
        let mut files: Vec<_> = objects
            .iter()
            .filter_map(|object| {
                let parts: Option<Vec<_>> = object
                    .location
                    .prefix_match(&self.folder)
                    .map(|parts| parts.map(|part| part.as_ref().to_owned()).collect());
                Some(self.file(parts?.join("/"), object))
            })
            // Consoles make empty objects in place of folders.
            .filter(|file| !file.path.is_empty())
            .collect();
        if files.is_empty() {
            let object = self.store.head(&self.folder).await;
            let object = object.map_err(|error| Self::trouble(&self.name, error))?;
            let name = self.folder.filename().unwrap_or_default().to_owned();
            files.push(self.file(name, &object));
        }
        Ok(Listing::new(&self.name, None, files)?)
    }

    fn file(&self, path: String, object: &ObjectMeta) -> RemoteFile {
        // Not the version that some providers have besides: a condition on a range needs the tag. Listings have it
        // without the quotes of other answers.
        let tag = object.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"));
        let tag = tag.map(|tag| tag.trim_matches('"'));
        let scheme = self.name.split("://").next().unwrap_or_default();
        let bucket = self.name.split('/').nth(2).unwrap_or_default();
        RemoteFile {
            path,
            size: object.size,
            sha256: None,
            checksum: None,
            version: tag.map(|tag| format!("{} {tag}", self.endpoint)),
            modified: Some(object.last_modified.into()),
            address: format!("{scheme}://{bucket}/{}", object.location),
        }
    }

    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        let tag = file
            .version
            .as_deref()
            .and_then(|version| version.split_once(' '));
        let options = GetOptions {
            if_match: tag.map(|(_, tag)| format!("\"{tag}\"")),
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let location = Self::location(&file.address)?;
        let address = file.address.clone();
        let answer = self.store.get_opts(&location, options).await;
        let answer = answer.map_err(|error| Self::trouble(&address, error))?;
        if answer.meta.size != file.size {
            let bytes = |size| format!("{size} bytes");
            return Err(Trouble::Final(PullError::Changed {
                address,
                expected: bytes(file.size),
                found: bytes(answer.meta.size),
            }));
        }
        let body = answer.into_stream();
        Ok(body
            .map_err(move |error| Trouble::of_client(&address, &error))
            .boxed())
    }

    /// The digest or checksum that S3 has of a file.
    pub(crate) async fn promise(&self, file: &RemoteFile) -> Result<Promise, Trouble> {
        let Some(checksums) = &self.checksums else {
            return Ok(Promise::default());
        };
        let location = Self::location(&file.address)?;
        let url = checksums.address(&location).await;
        let url = url.map_err(|error| Self::trouble(&file.address, error))?;
        checksums.promise(&url).await
    }

    /// Returns true for a bucket of S3.
    pub(crate) fn has_promises(&self) -> bool {
        self.checksums.is_some()
    }

    pub(crate) async fn put(&self, files: &[SmallFile]) -> Result<(), Trouble> {
        for file in files {
            let location = Self::location(&file.address)?;
            let put = self.store.put(&location, file.bytes.clone().into()).await;
            put.map_err(|error| Self::trouble(&file.address, error))?;
        }
        Ok(())
    }

    /// The object at `SCHEME://BUCKET/LOCATION`.
    fn location(address: &str) -> Result<Path, PullError> {
        let location = address.splitn(4, '/').nth(3).unwrap_or_default();
        Path::parse(location).map_err(|error| PullError::Listing {
            address: address.to_owned(),
            problem: error.to_string(),
        })
    }

    fn trouble(address: &str, error: Error) -> Trouble {
        let refused = |status: &str, remedy| {
            Trouble::Final(PullError::Refused {
                address: address.to_owned(),
                status: status.to_owned(),
                remedy,
            })
        };
        if let Some(later) = RetryLater::among(&error) {
            return Trouble::Passing {
                reason: later.to_string(),
                after: Some(later.after),
            };
        }
        match error {
            Error::NotFound { .. } => refused(
                "there is no such object, and no folder",
                "check bucket, folder and endpoint",
            ),
            Error::Unauthenticated { .. } => refused(
                "the credentials are not accepted",
                "set those of the provider in the environment, e.g. AWS_ACCESS_KEY_ID; AWS_SKIP_SIGNATURE=true for a public bucket",
            ),
            Error::PermissionDenied { .. } => refused(
                "the credentials do not allow it",
                "give them the right to list the folder and to read its objects, and for a push to write them",
            ),
            Error::Precondition { .. } => Trouble::Final(PullError::Changed {
                address: address.to_owned(),
                expected: "the listed object".to_owned(),
                found: "another".to_owned(),
            }),
            error => {
                let reason = chain(&error);
                match status_in(&reason) {
                    Some(401 | 403) => refused(
                        "the credentials may not list it",
                        "give them the right to list the folder and to read its objects",
                    ),
                    Some(400..=407 | 409..=428) => {
                        refused(&reason, "check bucket, region and endpoint")
                    }
                    _ => Trouble::of_client(address, &error),
                }
            }
        }
    }
}

/// The status in a message of `object_store`, which has no other place for it.
fn status_in(message: &str) -> Option<u16> {
    let (_, status) = message.split_once("status code: ")?;
    status.get(..3)?.parse().ok()
}

/// A few attempts for each request; `fetch` goes on where a body breaks.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
    }
}
