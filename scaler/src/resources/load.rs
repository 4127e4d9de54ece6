//! Source of a function's load, as the resource gives it.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::problem::FieldProblem;
use tetris_scaler_core::Rate;

/// Maximum length of a query, in bytes.
const MAX_QUERY: usize = 4_096;

/// Source of a function's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadSource {
    /// Queries of Prometheus.
    Prometheus(PrometheusLoad),
    /// A constant load.
    Static(Rate),
    /// Counters of the gateways.
    Gateway,
}

/// Exactly one source of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("(has(self.prometheus) ? 1 : 0) + (has(self.static) ? 1 : 0) + (has(self.gateway) ? 1 : 0) == 1").message("exactly one of prometheus, static and gateway must be set"))]
pub struct LoadSpec {
    /// Queries of the operator's Prometheus server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusLoad>,
    /// A constant load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#static: Option<StaticLoad>,
    /// Counters of the gateways that requests of the function go through, without Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayLoad>,
}

/// A load measured by Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusLoad {
    /// PromQL query for the function's requests per second. An instant vector is summed; a scalar
    /// is also accepted.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// PromQL query for the requests per second of each instance, by the label `pod`. The operator
    /// releases the least loaded instances first. Without the query, it releases the newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub per_pod_query: Option<String>,
    /// PromQL query for the time that instances take for a batch, in seconds, at the percentile of the
    /// objective; of several series the largest counts. Instances that are slower than their profile
    /// count for less. Without the query, the profile is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub latency_query: Option<String>,
}

/// A constant load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticLoad {
    /// Requests per second.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub requests_per_second: f64,
}

/// A load measured by the gateways: arrivals, requests that wait, and time in service. A request that
/// waits has an instance started, also from zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = without_additional_properties)]
pub struct GatewayLoad {}

/// Removes a keyword that definitions may not have, and which kube removes of objects with properties alone.
fn without_additional_properties(schema: &mut Schema) {
    schema.remove("additionalProperties");
}

impl LoadSpec {
    /// Checks the source.
    pub(super) fn checked(&self) -> Result<LoadSource, FieldProblem> {
        match (&self.prometheus, &self.r#static, &self.gateway) {
            (Some(prometheus), None, None) => prometheus.checked(),
            (None, Some(load), None) => load.checked(),
            (None, None, Some(GatewayLoad {})) => Ok(LoadSource::Gateway),
            (prometheus, load, gateway) => {
                let names = [
                    ("`prometheus`", prometheus.is_some()),
                    ("`static`", load.is_some()),
                    ("`gateway`", gateway.is_some()),
                ];
                let fields = names.iter().filter(|(_, is_set)| *is_set);
                let names_set: Vec<&str> = fields.map(|(name, _)| *name).collect();
                let found = if names_set.is_empty() {
                    "none".to_owned()
                } else {
                    names_set.join(" and ")
                };
                let problem = format!(
                    "found {found}, expected exactly one of `prometheus`, `static` and `gateway`; set one of them"
                );
                Err(FieldProblem::new("spec.load", problem))
            }
        }
    }
}

impl PrometheusLoad {
    fn checked(&self) -> Result<LoadSource, FieldProblem> {
        let query = "spec.load.prometheus.query";
        FieldProblem::check_text(query, &self.query, MAX_QUERY)?;
        if let Some(per_pod) = &self.per_pod_query {
            let field = "spec.load.prometheus.perPodQuery";
            FieldProblem::check_text(field, per_pod, MAX_QUERY)?;
        }
        if let Some(latency) = &self.latency_query {
            let field = "spec.load.prometheus.latencyQuery";
            FieldProblem::check_text(field, latency, MAX_QUERY)?;
        }
        Ok(LoadSource::Prometheus(self.clone()))
    }
}

impl StaticLoad {
    fn checked(&self) -> Result<LoadSource, FieldProblem> {
        let field = "spec.load.static.requestsPerSecond";
        let rps = self.requests_per_second;
        if rps > 1e9 {
            let problem = format!("found {rps}, expected 0 to 1000000000");
            return Err(FieldProblem::new(field, problem));
        }
        let rate = Rate::try_from_rps_f64(rps);
        let rate = rate.map_err(|error| FieldProblem::new(field, error.to_string()))?;
        Ok(LoadSource::Static(rate))
    }
}
