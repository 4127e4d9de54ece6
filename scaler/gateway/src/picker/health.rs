//! gRPC health checks, `grpc.health.v1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic::{Request, Response, Status};

use super::wire::health::health_server::Health;
pub use super::wire::health::{HealthCheckRequest, HealthCheckResponse, ServingStatus};

/// Services that are as ready as the gateway. The last one is the name that manifests of the Gateway
/// API Inference Extension ask for.
const READY: [&str; 4] = [
    "",
    "readiness",
    "envoy.service.ext_proc.v3.ExternalProcessor",
    "inference-extension",
];
/// The service that serves as long as it answers.
const LIVE: &str = "liveness";

/// Answers checks: ready as the page `/readyz` is.
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) ready: Arc<AtomicBool>,
}

#[tonic::async_trait]
impl Health for Checks {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let serves = if service == LIVE {
            true
        } else if READY.contains(&service.as_str()) {
            self.ready.load(Ordering::Relaxed)
        } else {
            return Err(Status::not_found(
                "unknown service; ask for liveness, readiness or envoy.service.ext_proc.v3.ExternalProcessor",
            ));
        };
        let status = if serves {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_picker_that_is_not_ready_is_live() {
        let checks = Checks {
            ready: Arc::new(AtomicBool::new(false)),
        };
        for (service, expected) in [
            ("readiness", ServingStatus::NotServing),
            ("", ServingStatus::NotServing),
            ("liveness", ServingStatus::Serving),
        ] {
            let service = service.to_owned();
            let answer = checks.check(Request::new(HealthCheckRequest { service }));
            assert_eq!(answer.await.unwrap().into_inner().status(), expected);
        }
    }
}
