//! Short answers of pods over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Client;
use thiserror::Error;

use crate::load::chain;
use crate::shown::shown;

/// Longest text of a problem.
const MAX_TEXT: usize = 256;

/// The reason that a pod's answer is missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PodProblem {
    /// No connection, or no complete answer in time.
    #[error("{0}")]
    Unreachable(String),
    /// Another status than 200.
    #[error("found status {0}, expected 200")]
    Status(u16),
    /// A body beyond the limit.
    #[error("found more than {0} bytes, expected at most that")]
    TooLong(usize),
}

/// Client of pods in all namespaces.
#[derive(Debug, Clone)]
pub struct PodClient {
    client: Client,
    timeout: Duration,
}

impl PodClient {
    /// Creates a client with a timeout of each request. With `idle` it keeps one connection to each pod for that time.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created.
    pub fn try_new(timeout: Duration, idle: Option<Duration>) -> Result<Self, reqwest::Error> {
        // Pods of the cluster, which no proxy leads to.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .connect_timeout(timeout)
            .pool_max_idle_per_host(idle.map_or(0, |_| 1))
            .pool_idle_timeout(idle)
            .build()?;
        Ok(Self { client, timeout })
    }

    /// Returns the body at `path`, of at most `most` bytes.
    pub(crate) async fn get(
        &self,
        address: SocketAddr,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, PodProblem> {
        let exchange = self.exchange(address, path, most);
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            Err(unreachable(&format!("no answer within {seconds} s")))
        })
    }

    async fn exchange(
        &self,
        address: SocketAddr,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, PodProblem> {
        let url = format!("http://{address}{path}");
        let answer = self.client.get(url).send().await;
        let answer = answer.map_err(|error| unreachable(&chain(&error)))?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(PodProblem::Status(status));
        }
        let mut body = Vec::new();
        let mut parts = answer.bytes_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| unreachable(&chain(&error)))?;
            if body.len().saturating_add(part.len()) > most {
                return Err(PodProblem::TooLong(most));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }
}

fn unreachable(problem: &str) -> PodProblem {
    PodProblem::Unreachable(shown(problem, MAX_TEXT))
}
