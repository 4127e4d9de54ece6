//! Health checks.

use hyper::http::uri::PathAndQuery;
use tetris_gateway::picker::health::{HealthCheckRequest, HealthCheckResponse, ServingStatus};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::data_plane::client;
use super::picking::address;
use crate::gateway::{Gateway, function};

async fn check(
    client: &mut tonic::client::Grpc<tonic::transport::Channel>,
    service: &str,
) -> Result<ServingStatus, Status> {
    client.ready().await.unwrap();
    let request = Request::new(HealthCheckRequest {
        service: service.to_owned(),
    });
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let codec: ProstCodec<HealthCheckRequest, HealthCheckResponse> = ProstCodec::default();
    let response = client.unary(request, path, codec).await?;
    Ok(response.into_inner().status())
}

#[tokio::test]
async fn services_of_the_picker_are_known_and_serve() {
    let gateway = Gateway::start(&function("embed", "", &[address(1)], 1)).await;
    let mut client = client(gateway.picker).await;
    for service in [
        "",
        "liveness",
        "readiness",
        "envoy.service.ext_proc.v3.ExternalProcessor",
        "inference-extension",
    ] {
        let status = check(&mut client, service).await.unwrap();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    let unknown = check(&mut client, "other").await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}
