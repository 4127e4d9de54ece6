//! Traces: spans of a process, sent to an OpenTelemetry collector by OTLP over gRPC.
//!
//! Spans have level `debug`, so that without a collector none is made at the default level of the log. With one, each span of a
//! crate of this project is recorded, with the events within it; a sampler (`OTEL_TRACES_SAMPLER`) decides about each trace.
//!
//! # Guarantees
//! - An absent, slow or full collector costs spans and nothing else: they wait in a queue of limited length and size.
//! - A process starts no thread for its traces, so that it can set them up before it enters a sandbox.

mod export;
mod queue;

use std::collections::HashMap;

use clap::Args;
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;

use crate::logs::LogArgs;

pub use export::{EndpointError, TraceError, Via, collector, while_exporting};
pub use tonic::transport::Uri;
pub use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Beginning of the targets whose spans are recorded: the crates of this project.
const TARGETS: &str = "tetris";
/// Environment variable with the address of a collector of all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Environment variable with the name of the service.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// Largest numbers of attributes and events of a span.
const ATTRIBUTES: u32 = 32;
const EVENTS: u32 = 64;

/// Arguments of daemons that record spans.
#[derive(Debug, Clone, Default, Args)]
pub struct TraceArgs {
    /// Address of an OpenTelemetry collector for the spans of this process, by OTLP over gRPC, e.g.
    /// http://127.0.0.1:4317; without it and OTEL_EXPORTER_OTLP_ENDPOINT, no span is recorded
    #[arg(
        long,
        value_name = "URL",
        env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        hide_env_values = true
    )]
    pub otlp_endpoint: Option<String>,
}

impl TraceArgs {
    /// The collector's address: the option's, or that of the environment.
    pub fn endpoint(&self) -> Option<String> {
        let of_traces = self.otlp_endpoint.clone().filter(|url| !url.is_empty());
        let of_all = || std::env::var(ENDPOINT).ok().filter(|url| !url.is_empty());
        of_traces.or_else(of_all)
    }

    /// Sets up the log, and spans of `service` if there is a collector. The spans wait for [`while_exporting`].
    ///
    /// # Errors
    ///
    /// Fails if a filter of the log does not parse, the collector's address is none, or the process has a subscriber already.
    pub fn init(&self, logs: &LogArgs, service: &'static str) -> Result<(), TraceError> {
        let Some(endpoint) = self.endpoint() else {
            return Ok(logs.init()?);
        };
        let endpoint = export::check(endpoint)?;
        let resource = resource(service);
        let (processor, spans) = queue::queue();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource.clone())
            .with_max_attributes_per_span(ATTRIBUTES)
            .with_max_events_per_span(EVENTS)
            .build();
        let recorded = filter_fn(|metadata| metadata.target().starts_with(TARGETS))
            .with_max_level_hint(LevelFilter::DEBUG);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(service))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(recorded);
        logs.init_beside(layer.boxed())?;
        export::prepare(endpoint, resource, provider, spans)?;
        Ok(())
    }
}

/// Puts `span` into the trace of `parent`, the value of a header `traceparent` (W3C Trace Context). Any other text changes nothing.
pub fn follow(span: &Span, parent: &str) {
    if span.is_disabled() {
        return;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), parent.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    if context.span().span_context().is_valid() {
        // Without a collector the span is of the log only.
        let _has_a_trace = span.set_parent(context);
    }
}

/// Attributes of all spans: the service's name and version, and those of `OTEL_RESOURCE_ATTRIBUTES`.
fn resource(service: &'static str) -> Resource {
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    if std::env::var_os(SERVICE_NAME).is_some() {
        builder.build()
    } else {
        builder.with_service_name(service).build()
    }
}
