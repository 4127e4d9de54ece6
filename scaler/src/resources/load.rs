//! Where the load of a function is read.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checked_function::LoadSource;
use super::problem::FieldProblem;
use tetris_scaler_core::Rate;

/// The longest query, in bytes.
const MAX_QUERY: usize = 4_096;

/// Exactly one source of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("has(self.prometheus) != has(self.static)").message("exactly one of prometheus and static must be set"))]
pub struct LoadSpec {
    /// Queries of the Prometheus server that the operator was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusLoad>,
    /// A load that does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#static: Option<StaticLoad>,
}

/// A load that Prometheus knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusLoad {
    /// Requests per second that come for the function: an instant vector, which is added up, or a scalar.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// Requests per second that each instance serves, by the label `pod`: the least loaded instances are
    /// released first. Without it, the newest are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub per_pod_query: Option<String>,
}

/// A load that does not change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticLoad {
    /// Requests per second.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub requests_per_second: f64,
}

impl LoadSpec {
    /// The source, checked.
    pub(super) fn checked(&self) -> Result<LoadSource, FieldProblem> {
        match (&self.prometheus, &self.r#static) {
            (Some(prometheus), None) => prometheus.checked(),
            (None, Some(load)) => load.checked(),
            (both, _) => {
                let found = if both.is_some() { "both" } else { "neither" };
                let problem = format!(
                    "found {found} of `prometheus` and `static`, expected exactly one; say where the load is read"
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
