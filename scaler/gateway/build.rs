//! Generates the servers of Envoy's external processing and of gRPC's health checks from their names
//! and calls, without a protocol compiler. The messages are in `src/picker/wire.rs` and
//! `src/picker/health.rs`.

use tonic_build::manual::{Builder, Method, Service};

const CODEC: &str = "tonic_prost::ProstCodec";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let process = Method::builder()
        .name("process")
        .route_name("Process")
        .input_type("crate::picker::wire::ProcessingRequest")
        .output_type("crate::picker::wire::ProcessingResponse")
        .codec_path("crate::picker::codec::BoundedCodec")
        .client_streaming()
        .server_streaming()
        .build();
    let processor = Service::builder()
        .name("ExternalProcessor")
        .package("envoy.service.ext_proc.v3")
        .method(process)
        .build();
    let check = Method::builder()
        .name("check")
        .route_name("Check")
        .input_type("crate::picker::health::HealthCheckRequest")
        .output_type("crate::picker::health::HealthCheckResponse")
        .codec_path(CODEC)
        .build();
    let health = Service::builder()
        .name("Health")
        .package("grpc.health.v1")
        .method(check)
        .build();
    Builder::new()
        .build_client(false)
        .compile(&[processor, health]);
}
