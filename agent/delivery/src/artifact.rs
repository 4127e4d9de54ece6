//! Artifacts of registries whose layers are tensors, so that a registry keeps once what fine-tunes share.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::Body;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tetris_folder::ModelFolder;
use tetris_loader::{LoadFailure, Progress, threads};
use tetris_store_layout::Digest;
use tokio::runtime::Runtime;

use crate::error::{PullError, Trouble};
use crate::fetch::Attempts;
use crate::name::SourceName;
use crate::options::PullOptions;
use crate::origin::model_config::{FileDigest, ModelConfig, ModelFile};
use crate::origin::registry::{PUSH, Registry, digest_of};
use crate::origin::registry_upload::MANIFEST;
use crate::pace::Pace;
use crate::pull::runtime;
use crate::selection::SIDECAR;

/// Least bytes of a tensor with a layer for itself. Smaller ones are one layer with their neighbours.
const LEAST: u64 = 1 << 20;
/// Most layers. With more, larger tensors are one layer with their neighbours.
const MAX_LAYERS: usize = 4_000;
/// Largest manifest in bytes, as registries have it.
const MAX_MANIFEST: usize = 4 << 20;
/// Bytes read and sent at a time.
const PIECE: usize = 256 << 10;
/// Blobs sent at once.
const UPLOADS: usize = 8;
/// Longest wait for a registry that has all bytes of a blob.
const SETTLING: Duration = Duration::from_mins(5);

const ARTIFACT: &str = "application/vnd.tetris.model.v1";
const PART: &str = "application/vnd.tetris.model.part.v1";
const FILE: &str = "application/vnd.tetris.model.file.v1";
const TITLE: &str = "org.opencontainers.image.title";

/// An artifact in a registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ArtifactReport {
    /// Its name with the digest of its manifest.
    pub reference: String,
    /// Number of files, without sidecars.
    pub files: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of layers.
    pub layers: usize,
    /// Number of layers that the registry did not have.
    pub new_layers: usize,
    /// Bytes sent.
    pub sent: u64,
    /// Time that it took.
    pub duration: Duration,
}

/// The place of an artifact to be pushed.
#[derive(Debug)]
pub struct ArtifactTarget {
    registry: Arc<Registry>,
    runtime: Runtime,
    options: PullOptions,
}

/// Content of a blob.
#[derive(Debug, Clone)]
enum Content {
    /// A part of a file of the folder.
    Part { path: String, range: Range<u64> },
    /// A sidecar, or the list of files.
    Bytes(Bytes),
}

/// A blob to be sent.
#[derive(Debug)]
struct Blob {
    digest: String,
    content: Content,
}

/// A layer in the manifest.
struct Layer {
    blob: Blob,
    media_type: &'static str,
    /// Path of the file, where it is a whole one.
    title: Option<String>,
}

/// A layer without its digest.
struct Planned {
    content: Content,
    media_type: &'static str,
    title: Option<String>,
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Self::Part { range, .. } => range.end - range.start,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// At most a piece of it, from `at` on.
    fn piece(&self, folder: &ModelFolder, at: u64) -> Bytes {
        match self {
            Self::Part { path, range } => {
                let len = (range.end - range.start).saturating_sub(at);
                let len = len.min(PIECE as u64) as usize;
                let piece = folder.read(path, range.start + at, len).unwrap_or_default();
                Bytes::copy_from_slice(&piece)
            }
            Self::Bytes(bytes) => {
                let begin = bytes.len().min(at as usize);
                bytes.slice(begin..bytes.len().min(begin + PIECE))
            }
        }
    }

    fn sha256(&self, folder: &ModelFolder) -> [u8; 32] {
        let mut hasher = Sha256::new();
        let mut at = 0;
        while at < self.len() {
            let piece = self.piece(folder, at);
            if piece.is_empty() {
                break;
            }
            hasher.update(&piece);
            at += piece.len() as u64;
        }
        hasher.finalize().into()
    }
}

impl ArtifactTarget {
    /// The place `target`, a tag of a registry, which is asked whether it takes the login.
    ///
    /// # Errors
    /// When it is no tag, or the registry does not answer or refuses.
    pub fn open(target: &SourceName, options: &PullOptions) -> Result<Self, PullError> {
        let registry = match target {
            SourceName::Registry {
                registry,
                repo,
                reference,
            } if !reference.contains(':') => {
                Registry::from_env(PUSH, registry, repo, reference, options)?
            }
            _ => {
                return Err(PullError::NoTag {
                    target: target.to_string(),
                });
            }
        };
        let target = Self {
            registry: Arc::new(registry),
            runtime: runtime(options)?,
            options: options.clone(),
        };
        let check = target.retried("registry", async || target.registry.check().await);
        target.runtime.block_on(check)?;
        Ok(target)
    }

    /// Pushes the files of a folder, with sidecars. Layers that the registry has are not sent.
    ///
    /// # Errors
    /// Describes the first problem. What was sent stays in the registry until it removes what no manifest names.
    pub fn push(&self, folder: &Arc<ModelFolder>) -> Result<ArtifactReport, PullError> {
        let begun = Instant::now();
        let (layers, files) = self.layers(folder)?;
        let config = ModelConfig::encode(files).map_err(|error| PullError::Listing {
            address: folder.source_name().to_owned(),
            problem: error.to_string(),
        })?;
        let config = Blob {
            digest: digest_of(&config),
            content: Content::Bytes(config.into()),
        };
        let manifest = manifest(&config, &layers);
        if manifest.len() > MAX_MANIFEST {
            return Err(self.registry.too_large(manifest.len(), MAX_MANIFEST));
        }
        let blobs: Vec<Blob> = layers.into_iter().map(|layer| layer.blob).collect();
        let layers = blobs.len();
        let sent = self
            .runtime
            .block_on(self.send_all(folder, blobs, config, &manifest))?;
        Ok(ArtifactReport {
            reference: self.registry.at_digest(&digest_of(&manifest)),
            files: folder.file_count(),
            bytes: folder.bytes(),
            layers,
            new_layers: sent.layers,
            sent: sent.bytes,
            duration: begun.elapsed(),
        })
    }

    /// The layers, each once, and the files that they make.
    fn layers(&self, folder: &ModelFolder) -> Result<(Vec<Layer>, Vec<ModelFile>), PullError> {
        let paths: Vec<&str> = folder.files().map(|(path, _)| path).collect();
        let mut least = LEAST;
        let count = |least| {
            let parts = paths.iter().map(|path| folder.parts(path, least).len());
            parts.sum::<usize>()
        };
        while count(least) > MAX_LAYERS.max(paths.len()) && least < u64::MAX / 2 {
            least *= 2;
        }
        let mut planned = Vec::new();
        let mut files = Vec::new();
        for (path, size) in folder.files() {
            let parts = folder.parts(path, least);
            let is_whole = parts.len() == 1;
            let first = planned.len();
            planned.extend(parts.into_iter().map(|range| Planned {
                content: Content::Part {
                    path: path.to_owned(),
                    range,
                },
                media_type: if is_whole { FILE } else { PART },
                title: is_whole.then(|| path.to_owned()),
            }));
            files.push((path.to_owned(), size, first..planned.len()));
            if let Some(sidecar) = folder.sidecar(path) {
                let sidecar = sidecar.map_err(|failure| match failure {
                    LoadFailure::Load(error) => error.into(),
                    LoadFailure::Changed => PullError::Changed {
                        address: format!("{}/{path}", folder.source_name()),
                        expected: format!("{size} bytes"),
                        found: "fewer".to_owned(),
                    },
                });
                let sidecar = sidecar?;
                let path = format!("{path}{SIDECAR}");
                let place = planned.len()..planned.len() + 1;
                files.push((path.clone(), sidecar.len() as u64, place));
                planned.push(Planned {
                    content: Content::Bytes(sidecar.into()),
                    media_type: FILE,
                    title: Some(path),
                });
            }
        }
        let digests = self.digests(folder, &planned);
        let mut places = BTreeMap::new();
        let mut layers: Vec<Layer> = Vec::new();
        let mut indices = Vec::new();
        for (planned, digest) in planned.into_iter().zip(digests) {
            let place = *places.entry(digest.clone()).or_insert_with(|| {
                layers.push(Layer {
                    blob: Blob {
                        digest,
                        content: planned.content,
                    },
                    media_type: planned.media_type,
                    title: planned.title,
                });
                layers.len() - 1
            });
            indices.push(place);
        }
        let files = files.into_iter().map(|(path, size, planned)| {
            let parts = indices.get(planned).unwrap_or_default();
            let sha256 = Self::file_digest(folder, &path, size, parts, &layers);
            ModelFile {
                modified: folder.modified(&path),
                path,
                size,
                sha256,
                layers: parts.to_vec(),
            }
        });
        let files = files.collect();
        Ok((layers, files))
    }

    /// Digests of the planned layers, computed by all threads.
    fn digests(&self, folder: &ModelFolder, planned: &[Planned]) -> Vec<String> {
        let digests: Vec<Mutex<String>> = planned.iter().map(|_| Mutex::default()).collect();
        let tasks: Vec<_> = planned.iter().zip(&digests).collect();
        let threads = self.options.threads.get();
        let Ok(()) = threads::for_each(threads, tasks, |(planned, place)| {
            let digest = Digest(planned.content.sha256(folder));
            *place.lock().unwrap_or_else(PoisonError::into_inner) = format!("sha256:{digest}");
            Ok::<_, std::convert::Infallible>(())
        });
        let digests = digests.into_iter();
        digests
            .map(|digest| digest.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect()
    }

    /// SHA-256 of a file: that of its layer where it has one.
    fn file_digest(
        folder: &ModelFolder,
        path: &str,
        size: u64,
        parts: &[usize],
        layers: &[Layer],
    ) -> FileDigest {
        if let [only] = parts
            && let Some(layer) = layers.get(*only)
            && let Some(digest) = layer.blob.digest.strip_prefix("sha256:")
            && let Ok(digest) = digest.parse::<Digest>()
        {
            return FileDigest(digest.0);
        }
        let whole = Content::Part {
            path: path.to_owned(),
            range: 0..size,
        };
        FileDigest(whole.sha256(folder))
    }

    async fn send_all(
        &self,
        folder: &Arc<ModelFolder>,
        blobs: Vec<Blob>,
        config: Blob,
        manifest: &[u8],
    ) -> Result<Sent, PullError> {
        let total = blobs.iter().map(|blob| blob.content.len()).sum();
        let sending = Arc::new(Sending {
            folder: Arc::clone(folder),
            pace: self.options.bytes_per_second.map(Pace::new),
            options: self.options.clone(),
            total,
            done: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let new = AtomicUsize::new(0);
        let uploads = self.options.connections.get().min(UPLOADS);
        let blobs = stream::iter(blobs.into_iter().map(Ok::<_, PullError>));
        let sent = blobs.try_for_each_concurrent(uploads, |blob| {
            let (sending, new) = (&sending, &new);
            async move {
                if self.send(sending, &blob).await? {
                    new.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        });
        sent.await?;
        self.send(&sending, &config).await?;
        let put = async || self.registry.put_manifest(manifest).await;
        self.retried("manifest", put).await?;
        Ok(Sent {
            layers: new.into_inner(),
            bytes: sending.sent.load(Ordering::Relaxed),
        })
    }

    /// Sends a blob unless the registry has it; returns true if it was sent.
    async fn send(&self, sending: &Arc<Sending>, blob: &Blob) -> Result<bool, PullError> {
        let len = blob.content.len();
        let attempt = async || {
            if self.registry.has(&blob.digest).await? {
                return Ok(false);
            }
            let place = self.registry.begin_upload().await?;
            let count = Arc::new(AtomicU64::new(0));
            let body = sending.body(blob.content.clone(), Arc::clone(&count));
            let upload = self.registry.upload(&place, &blob.digest, len, body);
            tokio::select! {
                sent = upload => sent.map(|()| true),
                () = stalled(&count, len, self.longest_silence()) => {
                    Err(Trouble::passing("the registry takes no bytes"))
                }
            }
        };
        let is_new = self.retried(&blob.digest, attempt).await?;
        sending.count(len, is_new);
        Ok(is_new)
    }

    /// Time without progress of an upload after which it ends: longer where the limit of the rate makes it wait.
    fn longest_silence(&self) -> Duration {
        let rate = self.options.bytes_per_second;
        let waits = rate.map_or(0.0, |rate| (UPLOADS * PIECE) as f64 / rate.get() as f64);
        let waits = Duration::try_from_secs_f64(waits).unwrap_or(Duration::MAX);
        self.options.stall.saturating_add(waits)
    }

    async fn retried<T>(
        &self,
        of: &str,
        attempt: impl AsyncFn() -> Result<T, Trouble>,
    ) -> Result<T, PullError> {
        let address = self.registry.at_digest(of);
        let mut attempts = Attempts::new(&address, &self.options);
        loop {
            match attempt().await {
                Ok(result) => return Ok(result),
                Err(trouble) => attempts.after(trouble, 0).await?,
            }
        }
    }
}

/// Outcome of the upload of all blobs.
struct Sent {
    layers: usize,
    bytes: u64,
}

/// The upload of all blobs.
struct Sending {
    folder: Arc<ModelFolder>,
    pace: Option<Pace>,
    options: PullOptions,
    total: u64,
    done: AtomicU64,
    sent: AtomicU64,
}

impl Sending {
    /// The bytes of a blob, counted as they are taken.
    fn body(self: &Arc<Self>, content: Content, count: Arc<AtomicU64>) -> Body {
        let sending = Arc::clone(self);
        let pieces = stream::unfold(0, move |at| {
            let piece = content.piece(&sending.folder, at);
            let (sending, count) = (Arc::clone(&sending), Arc::clone(&count));
            async move {
                if piece.is_empty() {
                    return None;
                }
                if let Some(pace) = &sending.pace {
                    pace.pay(piece.len()).await;
                }
                let at = at + piece.len() as u64;
                count.store(at, Ordering::Relaxed);
                Some((piece, at))
            }
        });
        Body::wrap_stream(pieces.map(Ok::<_, std::io::Error>))
    }

    /// Counts a blob of `len` bytes as done.
    fn count(&self, len: u64, is_new: bool) {
        if is_new {
            self.sent.fetch_add(len, Ordering::Relaxed);
        }
        let done = self.done.fetch_add(len, Ordering::Relaxed) + len;
        if let Some(progress) = &self.options.progress {
            progress.report(Progress::new(done.min(self.total), self.total));
        }
    }
}

/// Waits until no more of `len` bytes were taken over `stall`; for all of them, longer.
async fn stalled(count: &AtomicU64, len: u64, stall: Duration) {
    let mut before = None;
    loop {
        let taken = count.load(Ordering::Relaxed);
        if before == Some(taken) {
            return;
        }
        before = Some(taken);
        let is_waiting = taken >= len;
        tokio::time::sleep(if is_waiting { SETTLING } else { stall }).await;
    }
}

/// The manifest of an artifact.
fn manifest(config: &Blob, layers: &[Layer]) -> Vec<u8> {
    let descriptor = |media_type: &str, blob: &Blob| {
        json!({
            "mediaType": media_type,
            "digest": blob.digest,
            "size": blob.content.len(),
        })
    };
    let layers = layers.iter().map(|layer| {
        let mut descriptor = descriptor(layer.media_type, &layer.blob);
        if let (Some(title), Some(fields)) = (&layer.title, descriptor.as_object_mut()) {
            fields.insert("annotations".to_owned(), json!({ TITLE: title }));
        }
        descriptor
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": descriptor(ModelConfig::MEDIA_TYPE, config),
        "layers": layers.collect::<Vec<_>>(),
    });
    manifest.to_string().into_bytes()
}
