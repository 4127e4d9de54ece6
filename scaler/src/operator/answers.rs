//! Short answers of pods over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Client;

use crate::load::chain;
use crate::shown::shown;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Client of pods in all namespaces. It keeps no connections.
#[derive(Debug, Clone)]
pub struct PodClient(Client);

impl PodClient {
    /// Creates a client.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created.
    pub fn try_new() -> Result<Self, reqwest::Error> {
        // Pods of the cluster, which no proxy leads to.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .connect_timeout(TIMEOUT)
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self(client))
    }

    /// Returns the body at `path`, of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// The reason that there is none: no answer in time, another status than 200, or a longer body.
    pub async fn get(
        &self,
        address: SocketAddr,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, String> {
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(address, path, most)).await;
        let seconds = TIMEOUT.as_secs_f64();
        let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {seconds} s")));
        answered.map_err(|problem| shown(&problem, 256))
    }

    async fn exchange(
        &self,
        address: SocketAddr,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, String> {
        let url = format!("http://{address}{path}");
        let answer = self.0.get(url).send().await;
        let answer = answer.map_err(|error| chain(&error))?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(format!("found status {status}, expected 200"));
        }
        let mut body = Vec::new();
        let mut parts = answer.bytes_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| chain(&error))?;
            if body.len().saturating_add(part.len()) > most {
                return Err(format!(
                    "found more than {most} bytes, expected at most that"
                ));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }
}
