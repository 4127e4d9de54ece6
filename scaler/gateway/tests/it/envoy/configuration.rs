//! Configuration of an Envoy as data planes of the Gateway API Inference Extension have it.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// Way in which Envoy shows bodies to the picker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Part by part, as the protocol expects it.
    Streamed,
    /// Requests whole, and no responses.
    Buffered,
}

/// Settings that tests vary.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    pub picker: SocketAddr,
    pub instances: &'a [SocketAddr],
    pub bodies: Bodies,
    /// True for the failure mode FailOpen.
    pub fail_open: bool,
}

const DESTINATION: &str = "x-gateway-destination-endpoint";
const SERVED: &str = "x-gateway-destination-endpoint-served";

pub fn configuration(settings: &Settings<'_>) -> Value {
    json!({
        "admin": {"address": address(([127, 0, 0, 1], 0).into())},
        "static_resources": {
            "listeners": [{
                "name": "clients",
                "address": address(([127, 0, 0, 1], 0).into()),
                "filter_chains": [{"filters": [{
                    "name": "http",
                    "typed_config": connection_manager(settings),
                }]}],
            }],
            "clusters": [picker(settings.picker), pool(settings.instances)],
        },
    })
}

fn connection_manager(settings: &Settings<'_>) -> Value {
    json!({
        "@type": kind("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "clients",
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "pool", "timeout": "0s"}}],
        }]},
        "http_filters": [
            subset_of_header(),
            {"name": "picker", "typed_config": external_processing(settings)},
            {"name": "router", "typed_config": {"@type": kind("filters.http.router.v3.Router")}},
        ],
    })
}

/// The header `x-subset` becomes the hint of a subset.
fn subset_of_header() -> Value {
    json!({"name": "subset", "typed_config": {
        "@type": kind("filters.http.header_to_metadata.v3.Config"),
        "request_rules": [{
            "header": "x-subset",
            "on_header_present": {
                "metadata_namespace": "envoy.lb.subset_hint",
                "key": "x-gateway-destination-endpoint-subset",
            },
        }],
    }})
}

fn external_processing(settings: &Settings<'_>) -> Value {
    let modes = match settings.bodies {
        Bodies::Streamed => json!({
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "response_body_mode": "FULL_DUPLEX_STREAMED",
            "request_trailer_mode": "SEND",
            "response_trailer_mode": "SEND",
        }),
        Bodies::Buffered => json!({
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": "BUFFERED",
        }),
    };
    json!({
        "@type": kind("filters.http.ext_proc.v3.ExternalProcessor"),
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
        "failure_mode_allow": settings.fail_open,
        "processing_mode": modes,
        // As long as a request may wait for an instance.
        "message_timeout": "60s",
        "metadata_options": {
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    })
}

fn picker(at: SocketAddr) -> Value {
    json!({
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": endpoints("picker", &[at]),
        // In a cluster the list of the picker's endpoints shows which of them are ready.
        "health_checks": [{
            "timeout": "1s",
            "interval": "0.1s",
            "no_traffic_interval": "0.1s",
            "unhealthy_threshold": 1,
            "healthy_threshold": 1,
            "grpc_health_check": {"service_name": "readiness"},
        }],
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": kind("upstreams.http.v3.HttpProtocolOptions"),
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        },
    })
}

fn pool(instances: &[SocketAddr]) -> Value {
    json!({
        "name": "pool",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": endpoints("pool", instances),
        "load_balancing_policy": {"policies": [{"typed_extension_config": {
            "name": "picked",
            "typed_config": {
                "@type": kind("load_balancing_policies.override_host.v3.OverrideHost"),
                "override_host_sources": [
                    {"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}},
                    {"header": DESTINATION},
                ],
                "selected_host_key": {"key": "envoy.lb", "path": [{"key": SERVED}]},
                "fallback_policy": {"policies": [{"typed_extension_config": {
                    "name": "turns",
                    "typed_config": {
                        "@type": kind("load_balancing_policies.round_robin.v3.RoundRobin"),
                    },
                }}]},
            },
        }}]},
    })
}

fn endpoints(cluster: &str, all: &[SocketAddr]) -> Value {
    let all: Vec<Value> = all
        .iter()
        .map(|&entry| json!({"endpoint": {"address": address(entry)}}))
        .collect();
    json!({"cluster_name": cluster, "endpoints": [{"lb_endpoints": all}]})
}

fn address(of: SocketAddr) -> Value {
    json!({"socket_address": {"address": of.ip().to_string(), "port_value": of.port()}})
}

fn kind(name: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{name}")
}
