//! Pods that a change of the template replaces at a time, as the resource gives them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::problem::FieldProblem;

/// Maximum number of pods in a field.
const MAX_PODS: i32 = 20_000;

/// Pods that a change of the template replaces at a time: of each configuration's Deployment, the
/// fields of its rolling update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, kube::KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("!(string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])").message("maxSurge and maxUnavailable must not both be 0, or no pod could be replaced"))]
pub struct RolloutSpec {
    /// Maximum number of pods above the number of instances, as a number or in percent, rounded up.
    /// With 0, old pods go first, and new ones get their nodes.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "number_or_percent")]
    pub max_surge: IntOrString,
    /// Maximum number of instances that are not available meanwhile, as a number or in percent,
    /// rounded down.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "number_or_percent")]
    pub max_unavailable: IntOrString,
}

impl Default for RolloutSpec {
    /// The defaults of Deployments: a quarter each.
    fn default() -> Self {
        Self {
            max_surge: quarter(),
            max_unavailable: quarter(),
        }
    }
}

fn quarter() -> IntOrString {
    IntOrString::String("25%".to_owned())
}

fn number_or_percent(_: &mut SchemaGenerator) -> Schema {
    // What is not required is nullable otherwise.
    json_schema!({"x-kubernetes-int-or-string": true, "nullable": false})
}

impl RolloutSpec {
    /// Returns the strategy of a Deployment.
    pub fn strategy(&self) -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": self})
    }

    /// Checks both fields as the API server does.
    pub(super) fn checked(&self) -> Result<Self, FieldProblem> {
        let surge = check("spec.rollout.maxSurge", &self.max_surge, MAX_PODS)?;
        let field = "spec.rollout.maxUnavailable";
        // More than all would be the same as all, and the API server takes no more.
        if check(field, &self.max_unavailable, 100)? + surge == 0 {
            let problem = "found 0 as in `spec.rollout.maxSurge`, expected one of them above 0, or no pod could be replaced";
            return Err(FieldProblem::new(field, problem));
        }
        Ok(self.clone())
    }
}

/// Returns the number, or the percentage up to `most_percent`.
fn check(field: &str, value: &IntOrString, most_percent: i32) -> Result<i64, FieldProblem> {
    let (number, most) = match value {
        IntOrString::Int(number) => (Some(*number), MAX_PODS),
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%');
            let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
            (digits.and_then(|it| it.parse().ok()), most_percent)
        }
    };
    match number {
        Some(number) if (0..=most).contains(&number) => Ok(number.into()),
        _ => {
            let found = match value {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(text) => {
                    format!("{:?}", text.chars().take(32).collect::<String>())
                }
            };
            let problem = format!(
                "found {found}, expected a number from 0 to {MAX_PODS} or a percentage from \"0%\" to \"{most_percent}%\""
            );
            Err(FieldProblem::new(field, problem))
        }
    }
}
