//! Artifacts of OCI registries: files as layers, as ModelPack and ORAS push them, and archives of
//! files, as Modelcar images have them.
//!
//! The crate `oci-client` reads manifests and tokens of any length into memory, so the few requests that a
//! pull needs are made here.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, RANGE, WWW_AUTHENTICATE};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tetris_store_layout::Digest;
use url::Url;

use super::Body;
use super::docker_config::{self, Login};
use super::http::{HttpClient, Remedies, authorized, is_of_this_machine};
use super::model_config::{FilePart, ModelConfig};
use crate::error::{PullError, Trouble};
use crate::listing::{Archive, Compression, Listing, RemoteFile};
use crate::options::PullOptions;

/// Largest manifest in bytes, as registries have it.
const MAX_MANIFEST: u64 = 4 << 20;
/// Largest list of an artifact's files, in bytes.
const MAX_CONFIG: u64 = 16 << 20;
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

/// Rights to read an artifact, and to write one, as servers of tokens name them.
pub(crate) const PULL: &str = "pull";
pub(crate) const PUSH: &str = "pull,push";

const REMEDIES: Remedies = Remedies {
    unauthorized: "log in to the registry, e.g. with `docker login`: ~/.docker/config.json or $DOCKER_CONFIG has no credentials that it takes",
    forbidden: "the account of ~/.docker/config.json, or $DOCKER_CONFIG, may not read it",
    missing: "check repository and tag",
};

/// An artifact of a registry.
pub(crate) struct Registry {
    pub(super) client: HttpClient,
    pub(super) base: Url,
    pub(super) repo: String,
    pub(super) reference: String,
    login: Option<Login>,
    /// Rights that a token is asked for.
    actions: &'static str,
    /// The token that the registry's own server gave for this repository.
    token: Mutex<Option<String>>,
    /// Parts of files made of layers, by their paths, as they were listed.
    parts: Mutex<BTreeMap<String, Arc<[FilePart]>>>,
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
    config: Option<Descriptor>,
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

    /// The compression of an archived layer; `None` for a file.
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
    /// The artifact, with the login that `docker login` has left, for [`PULL`] or [`PUSH`].
    pub(crate) fn from_env(
        actions: &'static str,
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
            actions,
            token: Mutex::new(None),
            parts: Mutex::default(),
        })
    }

    pub(super) fn url(&self, kind: &str, reference: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            let repo = self.repo.split('/');
            path.pop_if_empty().extend(repo).extend([kind, reference]);
        }
        url
    }

    pub(super) fn name(&self) -> String {
        let registry = self.base.as_str();
        let registry = registry.trim_end_matches("/v2/");
        let registry = registry.split("://").nth(1).unwrap_or_default();
        format!("oci://{registry}/{}", self.repo)
    }

    pub(super) fn invalid(&self, problem: impl Into<String>) -> PullError {
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
        let config = manifest.config;
        if let Some(config) = config
            .as_ref()
            .filter(|config| config.media_type == ModelConfig::MEDIA_TYPE)
        {
            let files = self.composed(config, &layers).await?;
            return Ok(Listing::new(&self.name(), Some(digest), files)?);
        }
        let is_image = config.is_some_and(|config| IMAGES.contains(&config.media_type.as_str()));
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

    /// The files of an artifact whose layers are parts of files.
    async fn composed(
        &self,
        config: &Descriptor,
        layers: &[Descriptor],
    ) -> Result<Vec<RemoteFile>, Trouble> {
        let url = self.url("blobs", &config.digest);
        let text = self
            .authorized(&url, async |headers: HeaderMap| {
                self.client.whole(&url, headers, MAX_CONFIG).await
            })
            .await?;
        self.require_digest(&text, &config.digest)?;
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| (layer.digest.as_str(), layer.size))
            .collect();
        let config = ModelConfig::decode(&text, &layers).map_err(|problem| {
            self.invalid(format!("its list of files is not valid: {problem}"))
        })?;
        let name = self.name();
        let files = config.files.into_iter().map(|(file, parts)| {
            let remote = RemoteFile {
                size: file.size,
                sha256: Some(file.sha256.0),
                checksum: None,
                version: Some(format!("sha256:{}", file.sha256)),
                modified: file.modified(),
                address: format!("{name}/{}", file.path),
                path: file.path,
            };
            (remote, parts)
        });
        let (files, parts): (Vec<_>, Vec<_>) = files.unzip();
        let parts = files.iter().map(|file| file.path.clone()).zip(parts);
        *self.parts() = parts.collect();
        Ok(files)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[FilePart]>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of a file with the byte at `at`; `None` where the file is a layer.
    fn part(&self, file: &RemoteFile, at: u64) -> Option<FilePart> {
        let parts = Arc::clone(self.parts().get(&file.path)?);
        let next = parts.partition_point(|part| part.at <= at);
        parts.get(next.checked_sub(1)?).cloned()
    }

    /// End of the part of a file with the byte at `at`.
    pub(crate) fn part_end(&self, file: &RemoteFile, at: u64) -> u64 {
        let part = self.part(file, at);
        part.map_or(file.size, |part| part.at + part.len)
    }

    /// A layer as it is.
    fn blob(&self, layer: &Descriptor) -> RemoteFile {
        RemoteFile {
            path: layer.digest.clone(),
            size: layer.size,
            sha256: layer.sha256(),
            checksum: None,
            version: Some(layer.digest.clone()),
            modified: None,
            address: format!("{}@{}", self.name(), layer.digest),
        }
    }

    /// A file as a layer.
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
        if reference.starts_with("sha256:") {
            self.require_digest(&text, reference)?;
        }
        let manifest = serde_json::from_slice(&text)
            .map_err(|error| self.invalid(format!("its manifest cannot be read: {error}")))?;
        Ok((manifest, digest_of(&text)))
    }

    fn require_digest(&self, content: &[u8], expected: &str) -> Result<(), PullError> {
        let digest = digest_of(content);
        if digest == expected {
            return Ok(());
        }
        Err(PullError::Digest {
            address: format!("{}@{expected}", self.name()),
            expected: expected.to_owned(),
            found: digest,
        })
    }

    pub(crate) async fn open(&self, file: &RemoteFile, range: Range<u64>) -> Result<Body, Trouble> {
        let whole = || FilePart {
            at: 0,
            len: file.size,
            digest: file.version.as_deref().unwrap_or_default().into(),
        };
        let layer = self.part(file, range.start).unwrap_or_else(whole);
        let url = self.url("blobs", &layer.digest);
        let within = range.start - layer.at..range.end.saturating_sub(layer.at);
        self.authorized(&url, async |headers: HeaderMap| {
            let part = self
                .client
                .part(&url, headers, within.clone(), layer.len, None);
            Ok(part.await?.body)
        })
        .await
    }

    /// Does `ask` with the credentials that the registry wants; again with a new token where it refuses the
    /// one that there is.
    pub(super) async fn authorized<T>(
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

    /// Headers with the credentials that the registry took last.
    pub(super) fn known_authorization(&self) -> HeaderMap {
        authorized(self.token().as_deref())
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
        let scope = format!("repository:{}:{}", self.repo, self.actions);
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

/// The name of a blob with this content.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest(Sha256::digest(bytes).into()))
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
