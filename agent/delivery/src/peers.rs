//! Manifests that other nodes know: asked for by a pull, and answered by those that keep models.
//!
//! A peer is asked for the manifest of a file with a promised SHA-256, which proves whatever the peer answers.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rand::seq::SliceRandom;
use tetris_agent::Agent;
use tetris_store_layout::{Digest, IdentityBy, IdentityKey, Manifest, ManifestKind, Store};
use tokio::net::lookup_host;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::{PullError, chain};
use crate::listing::RemoteFile;

/// Longest manifest that is passed: of some 150,000 tensors.
const MAX_MANIFEST: usize = 16 << 20;
/// Peers asked for a file.
const MAX_ASKED: usize = 4;
/// Longest time to reach a peer, and to have its answer.
const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
/// Connections answered at once. Others are closed: a probe has what it asks for by then.
const CONNECTIONS: usize = 8;
/// Longest time for a request's head, and for a whole connection.
const HEAD: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(30);
/// Longest head of a request in bytes, which hyper takes 8 KiB at least for.
const MAX_HEAD: usize = 8 << 10;
/// Pause after an error of `accept`.
const PAUSE: Duration = Duration::from_millis(500);

/// Path of a manifest, by the file's SHA-256 and length.
const MANIFESTS: &str = "/manifests/sha256/";

/// Path of the kept model's description.
const DESCRIPTION: &str = "/description";

/// Nodes that may know manifests.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Names with ports, each of which may stand for many nodes.
    names: Vec<String>,
    client: reqwest::Client,
    /// True once none could be reached.
    are_away: AtomicBool,
}

impl Peers {
    /// The peers of a pull; `None` if there are none.
    pub(crate) fn new(names: &[String]) -> Result<Option<Self>, PullError> {
        if names.is_empty() {
            return Ok(None);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .no_gzip()
            .tls_certs_only([])
            .build();
        let client = client.map_err(|error| PullError::Client {
            source_name: names.join(", "),
            problem: chain(&error),
        })?;
        Ok(Some(Self {
            names: names.to_vec(),
            client,
            are_away: AtomicBool::new(false),
        }))
    }

    /// The manifest of a safetensors file with a promised digest, by the word of the first peer that has one of its
    /// length.
    pub(crate) async fn manifest(&self, file: &RemoteFile) -> Option<Manifest> {
        let digest = Digest(file.sha256?);
        if file.kind() != ManifestKind::Safetensors || self.are_away.load(Ordering::Relaxed) {
            return None;
        }
        let mut addresses = self.addresses().await;
        addresses.shuffle(&mut rand::rng());
        let mut is_away = true;
        for address in addresses.into_iter().take(MAX_ASKED) {
            let url = format!("http://{address}{MANIFESTS}{digest}-{}", file.size);
            match self.ask(&url).await {
                Ok(Some(bytes)) => {
                    is_away = false;
                    match Manifest::decode(&bytes) {
                        Ok(manifest) if manifest.source_size == file.size => return Some(manifest),
                        Ok(_) => tracing::debug!(url, "the manifest is of another file"),
                        Err(error) => tracing::debug!(url, %error, "no manifest"),
                    }
                }
                Ok(None) => is_away = false,
                Err(error) => tracing::debug!(url, error, "a peer does not answer"),
            }
        }
        self.are_away.fetch_or(is_away, Ordering::Relaxed);
        None
    }

    async fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for name in &self.names {
            match timeout(CONNECT, lookup_host(name)).await {
                Ok(Ok(found)) => addresses.extend(found),
                Ok(Err(error)) => tracing::debug!(name, %error, "no peers by this name"),
                Err(_) => tracing::debug!(name, "no answer about peers of this name"),
            }
        }
        addresses
    }

    /// The body of an answer; `None` if the peer has none.
    async fn ask(&self, url: &str) -> Result<Option<Vec<u8>>, String> {
        let failed = |error: reqwest::Error| chain(&error);
        let mut answer = self.client.get(url).send().await.map_err(failed)?;
        if answer.status() != StatusCode::OK {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(failed)? {
            if bytes.len() + part.len() > MAX_MANIFEST {
                return Err(format!("expected at most {MAX_MANIFEST} bytes"));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(Some(bytes))
    }
}

/// Answers peers about the manifests of an agent's store, and with `description`, JSON, at `/description`, until the process ends. Each
/// connection has a bounded time, and there is a bounded number of them.
///
/// # Errors
/// When there are no threads or descriptors for it.
pub fn answer_peers(
    listener: TcpListener,
    agent: &Agent,
    description: Vec<u8>,
) -> std::io::Result<()> {
    let description = Bytes::from(description);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let connection = match listener.accept().await {
                Ok((connection, _)) => connection,
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
                continue;
            };
            let (agent, description) = (agent.clone(), description.clone());
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let answer = answer(agent.store(), &description, &request);
                    std::future::ready(Ok::<_, Infallible>(answer))
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .max_buf_size(MAX_HEAD)
                    .serve_connection(TokioIo::new(connection), answer);
                if let Ok(Err(error)) = timeout(CONNECTION, served).await {
                    tracing::debug!(%error, "a peer's connection has ended");
                }
                drop(permit);
            });
        }
    })
}

fn answer(
    store: Option<&Store>,
    description: &Bytes,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let body = match (request.method(), request.uri().path()) {
        (&Method::GET, DESCRIPTION) => Some(description.clone()),
        (&Method::GET, path) => store
            .and_then(|store| manifest_at(store, path))
            .map(Bytes::from),
        _ => None,
    };
    let mut answer = Response::new(Full::default());
    match body {
        Some(body) => *answer.body_mut() = Full::from(body),
        None => *answer.status_mut() = StatusCode::NOT_FOUND,
    }
    answer
}

/// The manifest that a path asks for.
fn manifest_at(store: &Store, path: &str) -> Option<Vec<u8>> {
    let (digest, size) = path.strip_prefix(MANIFESTS)?.split_once('-')?;
    let digest: Digest = digest.parse().ok()?;
    let key = IdentityKey {
        kind: ManifestKind::Safetensors,
        by: IdentityBy::Sha256 {
            digest: digest.0,
            size: size.parse().ok()?,
        },
    };
    let id = store.look_up(&key).ok()??;
    let manifest = store.manifest(id).ok()??.encode();
    (manifest.len() <= MAX_MANIFEST).then_some(manifest)
}
