//! Limits on releases of instances, as the resource gives them.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use tetris_scaler_core::{LoadPeak, OperatorDefaults, ScaleInConfig, ScaleInError, ScaleInPolicy};

use super::problem::FieldProblem;

/// Limits on releases of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.keepPercent > self.scaleOutPercent").message("keepPercent must exceed scaleOutPercent, or instances come and go").field_path(".keepPercent"))]
pub struct ScaleInSpec {
    /// Time for which the load must stay low before instances are released, in seconds.
    #[serde(default = "window_seconds")]
    #[schemars(range(min = 1, max = 604_800))]
    pub window_seconds: u64,
    /// Spare capacity that the remaining instances must have after a release, in percent of the
    /// load.
    #[serde(default = "keep_percent")]
    #[schemars(range(min = 1, max = 900))]
    pub keep_percent: u32,
    /// Spare capacity below which instances are started, in percent of the load.
    #[serde(default = "scale_out_percent")]
    #[schemars(range(min = 0, max = 900))]
    pub scale_out_percent: u32,
    /// Maximum number of instances released at once.
    #[serde(default = "max_releases")]
    #[schemars(range(min = 1, max = 20_000))]
    pub max_releases: u32,
}

impl Default for ScaleInSpec {
    /// A window of five minutes, and the core's defaults.
    fn default() -> Self {
        Self {
            window_seconds: window_seconds(),
            keep_percent: keep_percent(),
            scale_out_percent: scale_out_percent(),
            max_releases: max_releases(),
        }
    }
}

const DEFAULTS: OperatorDefaults = OperatorDefaults::ALL;

const fn window_seconds() -> u64 {
    DEFAULTS.window_seconds
}

const fn keep_percent() -> u32 {
    DEFAULTS.scale_in.keep_percent
}

const fn scale_out_percent() -> u32 {
    DEFAULTS.scale_in.scale_out_percent
}

const fn max_releases() -> u32 {
    DEFAULTS.scale_in.max_releases
}

impl ScaleInSpec {
    /// Returns the policy, and the window in milliseconds.
    pub(super) fn checked(&self, min_instances: u32) -> Result<(ScaleInPolicy, u64), FieldProblem> {
        let window = "spec.scaleIn.windowSeconds";
        FieldProblem::check(window, self.window_seconds, 1, 604_800)?;
        let window_ms = self.window_seconds.saturating_mul(1_000);
        LoadPeak::try_new(window_ms)
            .map_err(|error| FieldProblem::new(window, error.to_string()))?;
        let policy = ScaleInPolicy::try_new(ScaleInConfig {
            keep_percent: self.keep_percent,
            scale_out_percent: self.scale_out_percent,
            min_instances,
            max_releases: self.max_releases,
        });
        let policy = policy.map_err(|error| problem(&error))?;
        Ok((policy, window_ms))
    }
}

fn problem(error: &ScaleInError) -> FieldProblem {
    let field = match error {
        ScaleInError::Field(field) => match field.field {
            "scale_out_percent" => "scaleOutPercent",
            "max_releases" => "maxReleases",
            _ => "keepPercent",
        },
        _ => "keepPercent",
    };
    FieldProblem::new(format!("spec.scaleIn.{field}"), error.to_string())
}
