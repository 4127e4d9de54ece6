//! The profile of a function before its measurement.

use crate::nodes::{bytes, millis};
use crate::resources::{
    CheckedFunction, CheckedTemplate, LatencyMicros, MeasuredConfiguration, ModelProfileSpec,
};

/// CPU of an instance whose template requests none, in millicores.
const CPU_MILLIS: u64 = 1_000;
/// Private memory of an instance whose template requests none, in bytes.
const OWN_BYTES: u64 = 1 << 30;

/// Returns a profile with one configuration that serves one request at a time, in half of the objective, with what the
/// template requests. `bytes` are those of the model's files.
pub(super) fn assumed(
    function: &CheckedFunction,
    template: &CheckedTemplate,
    model_bytes: u64,
) -> ModelProfileSpec {
    let latency = (function.slo.us() / 2).max(1);
    ModelProfileSpec {
        model: model_name(function),
        configurations: vec![MeasuredConfiguration {
            cpu_millis: requested(template, "cpu", millis).unwrap_or(CPU_MILLIS),
            batch: 1,
            concurrency: 1,
            own_bytes: requested(template, "memory", bytes).unwrap_or(OWN_BYTES),
            latency_micros: LatencyMicros {
                p50: latency,
                p90: latency,
                p95: latency,
                p99: latency,
            },
            ..MeasuredConfiguration::default()
        }],
        unlisted_bytes: model_bytes,
        ..ModelProfileSpec::default()
    }
}

/// Name of a function's model in the inference protocol.
pub(super) fn model_name(function: &CheckedFunction) -> String {
    let named = function.profiling.as_ref();
    let named = named.and_then(|profiling| profiling.model.as_ref());
    let named = named.or(function.model.as_ref());
    named.unwrap_or(&function.name).clone()
}

/// Amount of a resource that the template's container requests.
pub(super) fn requested(
    template: &CheckedTemplate,
    resource: &str,
    read: fn(&str) -> Option<u64>,
) -> Option<u64> {
    let spec = template.pods.spec.as_ref()?;
    let container = spec.containers.get(template.container)?;
    let requests = container.resources.as_ref()?.requests.as_ref()?;
    read(&requests.get(resource)?.0).filter(|amount| *amount > 0)
}
