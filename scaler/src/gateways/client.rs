//! Requests of gateways' loads.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Client;

use super::page::Page;
use super::{Gateway, GatewayError, GatewayProblem};
use crate::load::chain;
use crate::shown::shown;

/// Maximum size of a page in bytes: some 10,000 functions with instances.
const MAX_PAGE: usize = 4 << 20;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which an unused connection stays open.
const IDLE: Duration = Duration::from_secs(10);

/// Client of all gateways, with one connection to each.
#[derive(Debug, Clone)]
pub struct GatewayClient(Client);

impl GatewayClient {
    /// Creates a client without a connection.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created.
    pub fn try_new() -> Result<Self, reqwest::Error> {
        // Gateways are pods of the cluster, which no proxy leads to.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .connect_timeout(TIMEOUT)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(IDLE)
            .build()?;
        Ok(Self(client))
    }

    /// Returns the loads of `gateway`.
    ///
    /// # Errors
    ///
    /// Fails if the gateway does not answer in time, or not with its own valid page.
    pub async fn loads(&self, gateway: &Gateway) -> Result<Page, GatewayError> {
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(gateway)).await;
        let answered = answered.unwrap_or_else(|_| {
            let seconds = TIMEOUT.as_secs_f64();
            Err(unreachable(&format!("no answer within {seconds} s")))
        });
        answered.map_err(|problem| GatewayError::new(gateway, problem))
    }

    async fn exchange(&self, gateway: &Gateway) -> Result<Page, GatewayProblem> {
        let url = format!("http://{}/loads", gateway.address);
        let answer = self.0.get(url).send().await;
        let answer = answer.map_err(|error| unreachable(&chain(&error)))?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(GatewayProblem::Status(status));
        }
        let mut body = Vec::new();
        let mut parts = answer.bytes_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| unreachable(&chain(&error)))?;
            if body.len().saturating_add(part.len()) > MAX_PAGE {
                let problem =
                    format!("found more than {MAX_PAGE} bytes of loads, expected at most that");
                return Err(GatewayProblem::Malformed(problem));
            }
            body.extend_from_slice(&part);
        }
        Page::read(&body, &gateway.pod)
    }
}

fn unreachable(problem: &str) -> GatewayProblem {
    GatewayProblem::Unreachable(shown(problem, 256))
}
