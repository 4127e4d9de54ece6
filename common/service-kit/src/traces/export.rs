//! Sending spans while a process runs.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_otlp::{ExporterBuildError, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tetris_tls_roots::{RootsError, roots_for};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::transport::{ClientTlsConfig, Uri};

use super::queue::Spans;
use crate::logs::LogError;

/// Most spans of one message.
const BATCH: usize = 512;
/// Pause between two messages, in which spans gather.
const EVERY: Duration = Duration::from_secs(1);
/// Longest time for a collector to take a message.
const TAKEN: Duration = Duration::from_secs(5);
/// Longest time to send what is left when the process stops.
const STOP: Duration = Duration::from_secs(2);
/// Shortest time between two warnings.
const WARNING: Duration = Duration::from_mins(1);

/// Spans of this process, from their setup until a runtime sends them.
static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);

#[derive(Debug)]
struct Prepared {
    endpoint: Uri,
    resource: Resource,
    /// Records spans while it lives.
    provider: SdkTracerProvider,
    spans: Spans,
}

/// The reason traces could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A failure to set up the log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An unusable address of a collector.
    #[error(
        "collector of traces `{endpoint}`: {because}; expected http://HOST:PORT or https://HOST:PORT, e.g. http://127.0.0.1:4317"
    )]
    Endpoint {
        /// The address.
        endpoint: String,
        /// The mistake.
        because: EndpointError,
    },
}

/// A mistake in a collector's address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No address.
    #[error(transparent)]
    Parse(#[from] tonic::codegen::http::uri::InvalidUri),
    /// Another scheme than http and https.
    #[error("it has the scheme `{0}`")]
    Scheme(String),
}

/// Path of spans to the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// The network.
    Network,
    /// The Unix socket of a process that forwards connections, for processes without a network.
    Socket(PathBuf),
}

/// Checks a collector's address.
pub(super) fn check(endpoint: String) -> Result<Uri, TraceError> {
    let checked = endpoint
        .parse::<Uri>()
        .map_err(EndpointError::from)
        .and_then(|uri| match uri.scheme_str() {
            Some("http" | "https") => Ok(uri),
            scheme => Err(EndpointError::Scheme(scheme.unwrap_or_default().to_owned())),
        });
    checked.map_err(|because| TraceError::Endpoint { endpoint, because })
}

/// Keeps the queue of this process for [`while_exporting`].
///
/// # Errors
///
/// Fails if there is one already.
pub(super) fn prepare(
    endpoint: Uri,
    resource: Resource,
    provider: SdkTracerProvider,
    spans: Spans,
) -> Result<(), LogError> {
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if prepared.is_some() {
        return Err(LogError::Twice);
    }
    *prepared = Some(Prepared {
        endpoint,
        resource,
        provider,
        spans,
    });
    Ok(())
}

/// The collector's address, if spans are recorded and not sent yet.
pub fn collector() -> Option<Uri> {
    let prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    prepared.as_ref().map(|prepared| prepared.endpoint.clone())
}

/// Runs `work`, and sends spans of the process to its collector meanwhile. Without a collector it only runs `work`.
pub async fn while_exporting<T>(via: Via, work: impl Future<Output = T>) -> T {
    let prepared = PREPARED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(prepared) = prepared else {
        return work.await;
    };
    let endpoint = match via {
        Via::Network => prepared.endpoint.to_string(),
        Via::Socket(path) => format!("unix://{}", path.display()),
    };
    let exporter = match exporter(&endpoint, &prepared.resource) {
        Ok(exporter) => exporter,
        Err(error) => {
            tracing::warn!(endpoint, %error, "spans are not sent");
            return work.await;
        }
    };
    let sender = Sender {
        exporter,
        endpoint,
        warned: None,
        failed: 0,
    };
    let (stop, stopped) = watch::channel(false);
    let sending = tokio::spawn(sender.run(prepared.spans, stopped));
    let result = work.await;
    let _sender_ended = stop.send(true);
    if timeout(STOP, sending).await.is_err() {
        tracing::debug!("the last spans were not sent in time");
    }
    drop(prepared.provider);
    result
}

/// The reason spans are not sent.
#[derive(Debug, thiserror::Error)]
enum ExporterError {
    #[error(transparent)]
    Build(#[from] ExporterBuildError),
    #[error(transparent)]
    Roots(#[from] RootsError),
}

fn exporter(
    endpoint: &str,
    resource: &Resource,
) -> Result<opentelemetry_otlp::SpanExporter, ExporterError> {
    let builder = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(TAKEN);
    let roots = roots_for(endpoint)?;
    let mut exporter = if roots.is_empty() {
        builder.build()?
    } else {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.into_iter().map(CertificateDer::from));
        let tls = ClientTlsConfig::new().trust_anchors(store.roots);
        builder.with_tls_config(tls).build()?
    };
    exporter.set_resource(resource);
    Ok(exporter)
}

/// Sends messages one after the other.
#[derive(Debug)]
struct Sender {
    exporter: opentelemetry_otlp::SpanExporter,
    endpoint: String,
    warned: Option<Instant>,
    /// Spans that were not taken since the last warning.
    failed: u64,
}

impl Sender {
    /// Sends spans as they come, until `stopped`, and then what is left.
    async fn run(mut self, mut spans: Spans, mut stopped: watch::Receiver<bool>) {
        loop {
            let is_last = tokio::select! {
                () = spans.wait() => false,
                _ = stopped.wait_for(|stopped| *stopped) => true,
            };
            loop {
                let batch = spans.take(BATCH);
                let is_full = batch.len() == BATCH;
                self.send(batch, spans.lost()).await;
                if !is_full {
                    break;
                }
            }
            if is_last {
                return;
            }
            // Spans gather meanwhile.
            let _ends_early = timeout(EVERY, stopped.wait_for(|stopped| *stopped)).await;
        }
    }

    /// Sends a message. `lost` spans found no place in the queue.
    async fn send(&mut self, batch: Vec<SpanData>, lost: u64) {
        self.failed = self.failed.saturating_add(lost);
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let failure = if batch.is_empty() {
            None
        } else {
            self.exporter.export(batch).await.err()
        };
        if failure.is_some() {
            self.failed = self.failed.saturating_add(count);
        }
        let is_due = self.warned.is_none_or(|warned| warned.elapsed() >= WARNING);
        if self.failed > 0 && is_due {
            let (endpoint, lost) = (&self.endpoint, self.failed);
            let because = failure.map_or_else(
                || "more end than the collector takes".to_owned(),
                |failure| failure.to_string(),
            );
            tracing::warn!(endpoint, because, lost, "spans are lost");
            self.warned = Some(Instant::now());
            self.failed = 0;
        }
    }
}
