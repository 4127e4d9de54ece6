//! Requests of gateways' loads.

use std::time::Duration;

use super::page::Page;
use super::{Gateway, GatewayError, GatewayProblem};
use crate::pod_client::{PodClient, PodProblem};

/// Maximum size of a page in bytes: some 10,000 functions with instances.
const MAX_PAGE: usize = 4 << 20;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which an unused connection stays open.
const IDLE: Duration = Duration::from_secs(10);

/// Client of all gateways, with one connection to each.
#[derive(Debug, Clone)]
pub struct GatewayClient(PodClient);

impl GatewayClient {
    /// Creates a client without a connection.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created.
    pub fn try_new() -> Result<Self, reqwest::Error> {
        Ok(Self(PodClient::try_new(TIMEOUT, Some(IDLE))?))
    }

    /// Returns the loads of `gateway`.
    ///
    /// # Errors
    ///
    /// Fails if the gateway does not answer in time, or not with its own valid page.
    pub async fn loads(&self, gateway: &Gateway) -> Result<Page, GatewayError> {
        let body = self.0.get(gateway.address, "/loads", MAX_PAGE).await;
        let page = match body {
            Ok(body) => Page::read(&body, &gateway.pod),
            Err(PodProblem::Unreachable(problem)) => Err(GatewayProblem::Unreachable(problem)),
            Err(PodProblem::Status(status)) => Err(GatewayProblem::Status(status)),
            Err(PodProblem::TooLong(most)) => Err(GatewayProblem::Malformed(format!(
                "found more than {most} bytes of loads, expected at most that"
            ))),
        };
        page.map_err(|problem| GatewayError::new(gateway, problem))
    }
}
