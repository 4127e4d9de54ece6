//! Generates the server of gRPC's health checks from its names and calls, without a protocol compiler. The
//! messages are in `src/picker/health.rs`.

use tonic_build::manual::{Builder, Method, Service};

const CODEC: &str = "tonic_prost::ProstCodec";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
    Builder::new().build_client(false).compile(&[health]);
}
