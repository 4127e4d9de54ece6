//! Metrics as OpenMetrics text.

use std::fmt;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters with one label, whose values are known in advance: the number of series is bounded.
pub type ByLabel = Family<[(&'static str, &'static str); 1], Counter>;

/// Registers the gauge `build_info`, which has the label `version` and is always 1.
pub fn register_build_info(registry: &mut Registry, help: &str, version: &'static str) {
    let build = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    build.get_or_create(&[("version", version)]).set(1);
    registry.register("build_info", help, build);
}

/// Encodes all metrics of `registries`, one after the other.
///
/// # Errors
///
/// Fails if a collector does.
pub fn encode<'a>(
    registries: impl IntoIterator<Item = &'a Registry>,
) -> Result<String, fmt::Error> {
    let mut body = String::new();
    for registry in registries {
        text::encode_registry(&mut body, registry)?;
    }
    text::encode_eof(&mut body)?;
    Ok(body)
}
