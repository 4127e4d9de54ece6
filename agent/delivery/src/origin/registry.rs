//! Artifacts of OCI registries: files as layers, as ModelPack and ORAS push them, and archives of
//! files, as Modelcar images have them.
//!
//! The crate `oci-client` reads manifests and tokens of any length into memory, so the few requests that a
//! pull needs are made here.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, RANGE, WWW_AUTHENTICATE};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tetris_store_layout::Digest;
use url::Url;

use super::Body;
use super::docker_config::{self, Login};
use super::http::{HttpClient, Remedies, authorized, is_of_this_machine};
use crate::error::{PullError, Trouble};
use crate::listing::{Archive, Compression, Listing, RemoteFile};
use crate::options::PullOptions;

/// Largest manifest in bytes, as registries have it.
const MAX_MANIFEST: u64 = 4 << 20;
/// Largest answer of a server of tokens, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// Annotations with the path of a layer's file, by ORAS and ModelPack.
const PATHS: [&str; 3] = [
    "org.opencontainers.image.title",
    "org.cncf.model.filepath",
    "org.cnai.model.filepath",
];

/// Media types of the configuration of an image that runs.
const IMAGES: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// The folder of an image that has the model, as KServe mounts it.
const MODELS: &str = "models/";

/// Annotation of a folder that ORAS has packed.
const UNPACK: &str = "io.deis.oras.content.unpack";
/// Beginning of the media type that ORAS gives plain files as well.
const LAYER: &str = "application/vnd.oci.image.layer.";

const REMEDIES: Remedies = Remedies {
    unauthorized: "log in to the registry, e.g. with `docker login`: ~/.docker/config.json or $DOCKER_CONFIG has no credentials that it takes",
    forbidden: "the account of ~/.docker/config.json, or $DOCKER_CONFIG, may not read it",
    missing: "check repository and tag",
};

/// An artifact of a registry.
pub(crate) struct Registry {
    client: HttpClient,
    base: Url,
    repo: String,
    reference: String,
    login: Option<Login>,
    /// The token that the registry's own server gave for this repository.
    token: Mutex<Option<String>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("repo", &self.repo)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    /// Of an image or artifact.
    config: Option<Config>,
    layers: Option<Vec<Descriptor>>,
    /// Of an index.
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    media_type: String,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Descriptor {
    fn sha256(&self) -> Option<[u8; 32]> {
        let digest: Digest = self.digest.strip_prefix("sha256:")?.parse().ok()?;
        Some(digest.0)
    }

    /// The path in the layer's annotations.
    fn path(&self) -> Option<&str> {
        let path = PATHS.iter().find_map(|name| self.annotations.get(*name));
        path.map(String::as_str)
    }

    /// The compression of an archived layer; `None` for a layer that is a file.
    fn compression(&self, is_of_image: bool) -> Option<Compression> {
        let is_unpacked = self
            .annotations
            .get(UNPACK)
            .is_some_and(|yes| yes == "true");
        let is_plain = !is_of_image && self.media_type.starts_with(LAYER) && self.path().is_some();
        if is_plain && !is_unpacked {
            return None;
        }
        match self.media_type.rsplit(['.', '+']).next()? {
            "tar" => Some(Compression::None),
            "gzip" => Some(Compression::Gzip),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    fn is_for_this_machine(&self) -> bool {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let is_ours =
            |platform: &Platform| platform.os == "linux" && platform.architecture == architecture;
        self.platform.as_ref().is_none_or(is_ours)
    }
}

impl Registry {
    /// The artifact, with the login that `docker login` has left.
    pub(crate) fn from_env(
        registry: &str,
        repo: &str,
        reference: &str,
        options: &PullOptions,
    ) -> Result<Self, PullError> {
        let base = |scheme| {
            let base = Url::parse(&format!("{scheme}://{registry}/v2/"));
            base.map_err(|error| PullError::Client {
                source_name: format!("oci://{registry}/{repo}"),
                problem: error.to_string(),
            })
        };
        let mut base_url = base("https")?;
        // As other clients do: a registry of this machine has no certificate.
        if is_of_this_machine(&base_url) {
            base_url = base("http")?;
        }
        Ok(Self {
            client: HttpClient::new(&base_url, REMEDIES, options)?,
            base: base_url,
            repo: repo.to_owned(),
            reference: reference.to_owned(),
            login: docker_config::login(registry),
            token: Mutex::new(None),
        })
    }

    fn url(&self, kind: &str, reference: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            let repo = self.repo.split('/');
            path.pop_if_empty().extend(repo).extend([kind, reference]);
        }
        url
    }

    fn name(&self) -> String {
        let registry = self.base.as_str();
        let registry = registry.trim_end_matches("/v2/");
        let registry = registry.split("://").nth(1).unwrap_or_default();
        format!("oci://{registry}/{}", self.repo)
    }

    fn invalid(&self, problem: impl Into<String>) -> PullError {
        PullError::Listing {
            address: self.name(),
            problem: problem.into(),
        }
    }

    pub(crate) async fn list(&self) -> Result<Listing, Trouble> {
        let (mut manifest, mut digest) = self.manifest(&self.reference).await?;
        if let Some(manifests) = &manifest.manifests {
            let ours = manifests.iter().find(|entry| entry.is_for_this_machine());
            let ours = ours.ok_or_else(|| self.invalid("it has no image for this machine"))?;
            (manifest, digest) = self.manifest(&ours.digest).await?;
        }
        let layers = manifest.layers.unwrap_or_default();
        let is_image = manifest
            .config
            .is_some_and(|config| IMAGES.contains(&config.media_type.as_str()));
        let (mut files, mut archives) = (Vec::new(), Vec::new());
        for layer in &layers {
            match layer.compression(is_image) {
                Some(compression) => archives.push(Archive {
                    file: self.blob(layer),
                    compression,
                    root: if is_image { MODELS } else { "" },
                    base: self.name(),
                }),
                None => files.extend(self.file(layer)),
            }
        }
        if files.is_empty() && archives.is_empty() && !layers.is_empty() {
            let kinds: Vec<_> = layers
                .iter()
                .map(|layer| layer.media_type.as_str())
                .collect();
            let kinds = kinds.join(", ");
            return Err(Trouble::Final(self.invalid(format!(
                "expected archives of files as layers, or files with a path in {}, found {kinds}; push the files with `oras push` or `modctl`, or pull them from a folder",
                PATHS.join(" or ")
            ))));
        }
        let listing = Listing::new(&self.name(), Some(digest), files)?;
        Ok(listing.with_archives(archives))
    }

    /// A layer as it is.
    fn blob(&self, layer: &Descriptor) -> RemoteFile {
        RemoteFile {
            path: layer.digest.clone(),
            size: layer.size,
            sha256: layer.sha256(),
            version: Some(layer.digest.clone()),
            modified: None,
            address: format!("{}@{}", self.name(), layer.digest),
        }
    }

    /// A layer that is a file.
    fn file(&self, layer: &Descriptor) -> Option<RemoteFile> {
        let path = layer.path()?;
        Some(RemoteFile {
            path: path.to_owned(),
            address: format!("{}/{path}", self.name()),
            ..self.blob(layer)
        })
    }

    /// The manifest that `reference` leads to, and its digest.
    async fn manifest(&self, reference: &str) -> Result<(Manifest, String), Trouble> {
        let url = self.url("manifests", reference);
        let accept = (ACCEPT, HeaderValue::from_static(MANIFESTS));
        let text = self
            .authorized(&url, async |mut headers: HeaderMap| {
                headers.insert(accept.0.clone(), accept.1.clone());
                self.client.whole(&url, headers, MAX_MANIFEST).await
            })
            .await?;
        let digest = format!("sha256:{}", Digest(Sha256::digest(&text).into()));
        if reference.starts_with("sha256:") && reference != digest {
            return Err(Trouble::Final(PullError::Digest {
                address: format!("{}@{reference}", self.name()),
                expected: reference.to_owned(),
                found: digest,
            }));
        }
        let manifest = serde_json::from_slice(&text)
            .map_err(|error| self.invalid(format!("its manifest cannot be read: {error}")))?;
        Ok((manifest, digest))
    }

    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        let digest = file.version.as_deref().unwrap_or_default();
        let url = self.url("blobs", digest);
        self.authorized(&url, async |headers: HeaderMap| {
            let part = self
                .client
                .part(&url, headers, range.clone(), file.size, None);
            Ok(part.await?.body)
        })
        .await
    }

    /// Does `ask` with the credentials that the registry wants; again with a new token where it refuses the
    /// one that there is.
    async fn authorized<T>(
        &self,
        url: &Url,
        ask: impl AsyncFn(HeaderMap) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let known = self.token().clone();
        match ask(authorized(known.as_deref())).await {
            Err(Trouble::Final(PullError::Refused { status, .. })) if status.starts_with("401") => {
            }
            answer => return answer,
        }
        let token = self.new_token(url).await?;
        *self.token() = Some(token.clone());
        ask(authorized(Some(&token))).await
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `Authorization` that the registry asks for in its refusal.
    async fn new_token(&self, url: &Url) -> Result<String, Trouble> {
        let refused = || {
            Trouble::Final(PullError::Refused {
                address: crate::name::shown(url),
                status: "401 Unauthorized".to_owned(),
                remedy: REMEDIES.unauthorized,
            })
        };
        let challenge = self.client.challenge(url).await?.ok_or_else(refused)?;
        let basic = self.login.as_ref().map(Login::basic);
        if challenge.starts_with("Basic") {
            return basic.ok_or_else(refused);
        }
        let parameters = parameters(challenge.strip_prefix("Bearer ").ok_or_else(refused)?);
        let realm = parameters.get("realm").ok_or_else(refused)?;
        let mut server = Url::parse(realm)
            .map_err(|error| self.invalid(format!("its server of tokens is `{realm}`: {error}")))?;
        // A password goes only to a server that proves its name, as the registry does.
        if server.scheme() != self.base.scheme() && server.scheme() != "https" {
            return Err(self.invalid("its server of tokens has no TLS").into());
        }
        let scope = format!("repository:{}:pull", self.repo);
        server.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = parameters.get("service") {
            server.query_pairs_mut().append_pair("service", service);
        }
        let headers = authorized(basic.as_deref());
        let text = self.client.whole(&server, headers, MAX_TOKEN).await?;
        let token: Token = serde_json::from_slice(&text)
            .map_err(|_| self.invalid("its server of tokens gives none"))?;
        let token = token.token.or(token.access_token).ok_or_else(refused)?;
        Ok(format!("Bearer {token}"))
    }
}

impl HttpClient {
    /// Value of `WWW-Authenticate` in the answer to a request without credentials.
    async fn challenge(&self, url: &Url) -> Result<Option<String>, Trouble> {
        // Should it be an answer with the file, a byte is enough.
        let range = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-0"))]);
        let answer = self.send(url, range).await?;
        let challenge = answer.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| value.to_str().ok());
        Ok(challenge.map(str::to_owned))
    }
}

/// `name="value"` pairs with commas between them.
fn parameters(text: &str) -> BTreeMap<&str, &str> {
    let mut parameters = BTreeMap::new();
    let mut rest = text;
    while let Some((name, value)) = rest.split_once("=\"") {
        let Some((value, behind)) = value.split_once('"') else {
            break;
        };
        parameters.insert(name.trim_matches([',', ' ']), value);
        rest = behind;
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_has_names_and_values() {
        let text =
            r#"realm="https://auth/token",service="registry.x",scope="repository:a/b:pull,push""#;
        let parsed = parameters(text);
        assert_eq!(parsed["realm"], "https://auth/token");
        assert_eq!(parsed["scope"], "repository:a/b:pull,push");
        assert!(parameters("realm=\"unfinished").is_empty());
    }

    #[test]
    fn layers_are_archives_by_their_media_types_and_annotations() {
        let layer = |media_type: &str, annotations: &[(&str, &str)]| Descriptor {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", "a".repeat(64)),
            size: 1,
            annotations: annotations
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            platform: None,
        };
        let (title, path) = ((PATHS[0], "m.safetensors"), (PATHS[1], "m.safetensors"));
        let raw = layer("application/vnd.cncf.model.weight.v1.raw", &[path]);
        assert_eq!(raw.path(), Some("m.safetensors"));
        assert_eq!(raw.compression(false), None);
        assert_eq!(raw.sha256(), Some([0xaa; 32]));
        let tar = layer("application/vnd.cncf.model.weight.v1.tar", &[path]);
        assert_eq!(tar.compression(false), Some(Compression::None));
        let docker = layer("application/vnd.docker.image.rootfs.diff.tar.gzip", &[]);
        assert_eq!(docker.compression(true), Some(Compression::Gzip));
        let zstd = layer("application/vnd.oci.image.layer.v1.tar+zstd", &[]);
        assert_eq!(zstd.compression(true), Some(Compression::Zstd));
        // ORAS gives a plain file the media type of a layer.
        let layer_type = "application/vnd.oci.image.layer.v1.tar";
        assert_eq!(layer(layer_type, &[title]).compression(false), None);
        let folder = layer(layer_type, &[title, (UNPACK, "true")]);
        assert_eq!(folder.compression(false), Some(Compression::None));
        let of_image = layer(layer_type, &[title]).compression(true);
        assert_eq!(of_image, Some(Compression::None));
    }
}
