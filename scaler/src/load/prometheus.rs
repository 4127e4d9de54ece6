//! Client of Prometheus's query API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::{Certificate, Client, Url};
use tetris_scaler_core::Rate;
use tetris_tls_roots::roots_for;
use tokio::sync::Semaphore;

use super::answer::{Refusal, by_pod, latency, total};
use super::{LoadError, PrometheusError};
use crate::shown::shown;

/// Maximum size of an answer in bytes: some 10,000 samples.
const MAX_ANSWER: usize = 4 << 20;
/// Maximum number of concurrent queries.
const MAX_QUERIES: usize = 16;

/// Address, credentials and timeout of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusOptions {
    /// URL of the server.
    pub url: String,
    /// File with a bearer token, read for each query because tokens of service accounts change.
    pub token: Option<PathBuf>,
    /// PEM file of CA certificates, in addition to those trusted anyway.
    pub ca: Option<PathBuf>,
    /// Timeout of a query.
    pub timeout: Duration,
}

/// A Prometheus server.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    query: Url,
    token: Option<PathBuf>,
    timeout: Duration,
    permits: Semaphore,
}

impl Prometheus {
    /// Creates a client, without sending a query.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid or the certificates cannot be read.
    pub fn try_new(options: PrometheusOptions) -> Result<Self, PrometheusError> {
        let query = query_url(&options.url)?;
        let roots = roots_for(query.as_str())?;
        let roots: Result<Vec<_>, _> = roots.iter().map(|der| Certificate::from_der(der)).collect();
        let mut roots = roots?;
        if let Some(path) = &options.ca {
            roots.extend(certificates(path)?);
        }
        let client = Client::builder()
            .connect_timeout(options.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only(roots)
            .build()?;
        Ok(Self {
            client,
            query,
            token: options.token,
            timeout: options.timeout,
            permits: Semaphore::new(MAX_QUERIES),
        })
    }

    /// Returns the current load by `query`.
    ///
    /// # Errors
    ///
    /// The [`LoadError`] with the reason the load is unknown.
    pub async fn load(&self, query: &str) -> Result<Rate, LoadError> {
        total(&self.ask(query).await?)
    }

    /// Returns the current loads of instances by `query`.
    ///
    /// # Errors
    ///
    /// The [`LoadError`] with the reason the loads are unknown.
    pub async fn loads_by_pod(&self, query: &str) -> Result<BTreeMap<String, Rate>, LoadError> {
        by_pod(&self.ask(query).await?)
    }

    /// Returns the current latency by `query`, in microseconds.
    ///
    /// # Errors
    ///
    /// The [`LoadError`] with the reason the latency is unknown.
    pub async fn latency_us(&self, query: &str) -> Result<u64, LoadError> {
        latency(&self.ask(query).await?)
    }

    async fn ask(&self, query: &str) -> Result<Vec<u8>, LoadError> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        let answered = tokio::time::timeout(self.timeout, self.exchange(query)).await;
        answered.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            Err(unreachable(&format!("no answer within {seconds} s")))
        })
    }

    async fn exchange(&self, query: &str) -> Result<Vec<u8>, LoadError> {
        let mut request = self.client.get(self.query.clone());
        // The server stops at the same timeout.
        let timeout = format!("{}ms", self.timeout.as_millis());
        request = request.query(&[("query", query), ("timeout", &timeout)]);
        if let Some(path) = &self.token {
            request = request.bearer_auth(token(path).await?);
        }
        let answer = request.send().await;
        let answer = answer.map_err(|error| unreachable(&chain(&error)))?;
        let status = answer.status().as_u16();
        let body = bounded(answer).await?;
        if status == 200 {
            return Ok(body);
        }
        let refusal: Option<Refusal> = serde_json::from_slice(&body).ok();
        let problem = refusal.map_or_else(
            || "no reason given".to_owned(),
            |refusal| shown(&refusal.error, 256),
        );
        Err(LoadError::Refused { status, problem })
    }
}

async fn bounded(answer: reqwest::Response) -> Result<Vec<u8>, LoadError> {
    let mut body = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| unreachable(&chain(&error)))?;
        if body.len().saturating_add(part.len()) > MAX_ANSWER {
            let problem = format!("more than {MAX_ANSWER} bytes; sum in the query");
            return Err(LoadError::Malformed { problem });
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

async fn token(path: &Path) -> Result<String, LoadError> {
    let read = tokio::task::spawn_blocking({
        let path = path.to_owned();
        move || std::fs::read_to_string(path)
    });
    let text = match read.await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(unreachable(&format!("token {}: {error}", path.display()))),
        Err(error) => return Err(unreachable(&error.to_string())),
    };
    Ok(text.trim().to_owned())
}

fn query_url(text: &str) -> Result<Url, PrometheusError> {
    let problem = |problem: String| PrometheusError::Url {
        url: text.to_owned(),
        problem,
    };
    let mut url = Url::parse(text).map_err(|error| problem(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem(format!("scheme {:?}", url.scheme())));
    }
    let path = format!("{}/api/v1/query", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, PrometheusError> {
    let problem = |problem: String| PrometheusError::File {
        flag: "--prometheus-ca",
        path: path.to_owned(),
        problem,
    };
    let text = std::fs::read(path).map_err(|error| problem(error.to_string()))?;
    let roots = Certificate::from_pem_bundle(&text).map_err(|error| problem(error.to_string()))?;
    if roots.is_empty() {
        return Err(problem("found no certificate in PEM".to_owned()));
    }
    Ok(roots)
}

fn unreachable(problem: &str) -> LoadError {
    LoadError::Unreachable {
        problem: shown(problem, 256),
    }
}

/// Formats an error with its causes: reqwest's own text omits them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
