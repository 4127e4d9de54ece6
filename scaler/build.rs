//! Generates the server of KEDA's external scaler from its name and calls, without a protocol
//! compiler. The messages are in `src/keda/wire.rs`.

use tonic_build::manual::{Builder, Method, Service};

const MESSAGES: &str = "crate::keda::wire";

/// Rust name, name of the call, request, response, and true if the response is a stream.
type Call = (&'static str, &'static str, &'static str, &'static str, bool);

const CALLS: [Call; 5] = [
    (
        "is_active",
        "IsActive",
        "ScaledObjectRef",
        "IsActiveResponse",
        false,
    ),
    (
        "stream_is_active",
        "StreamIsActive",
        "ScaledObjectRef",
        "IsActiveResponse",
        true,
    ),
    (
        "get_metric_spec",
        "GetMetricSpec",
        "ScaledObjectRef",
        "GetMetricSpecResponse",
        false,
    ),
    (
        "get_metrics",
        "GetMetrics",
        "GetMetricsRequest",
        "GetMetricsResponse",
        false,
    ),
    (
        "stream_metric_spec",
        "StreamMetricSpec",
        "ScaledObjectRef",
        "GetMetricSpecResponse",
        true,
    ),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut service = Service::builder()
        .name("ExternalScaler")
        .package("externalscaler");
    for call in CALLS {
        service = service.method(method(call));
    }
    Builder::new()
        .build_client(false)
        .compile(&[service.build()]);
}

fn method((name, route, request, response, streams): Call) -> Method {
    let method = Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("{MESSAGES}::{request}"))
        .output_type(format!("{MESSAGES}::{response}"))
        .codec_path("tonic_prost::ProstCodec");
    if streams {
        method.server_streaming().build()
    } else {
        method.build()
    }
}
