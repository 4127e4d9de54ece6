//! What is asked, and the answer to it.

use thiserror::Error;
use tonic::Status;

use crate::resources::Scaling;
use crate::state::{Key, Snapshot};

use super::wire::{
    GetMetricSpecResponse, GetMetricsResponse, MetricSpec, MetricValue, ScaledObjectRef,
};

/// The only metric: how many instances.
pub const METRIC: &str = "tetris-replicas";

/// The trigger's metadata that name what is asked for.
const FUNCTION: &str = "function";
const CONFIGURATION: &str = "configuration";

/// The configuration that a ScaledObject is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The namespace of ScaledObject and function.
    pub namespace: String,
    /// The InferenceFunction's name.
    pub function: String,
    /// The configuration's name, such as `c2000-b4-p2`.
    pub configuration: String,
}

/// How many instances the configuration is to have, by the last decision.
pub fn replicas(snapshot: &Snapshot, target: &Target) -> Result<u32, NoTarget> {
    if snapshot.decided_ms == 0 {
        return Err(NoTarget::Undecided);
    }
    let function = target.function.clone();
    let key = Key::new(&target.namespace, &function);
    let Some(state) = snapshot.functions.get(&key) else {
        return Err(NoTarget::UnknownFunction { key });
    };
    if state.function.scaling != Scaling::External {
        return Err(NoTarget::NotExternal { function });
    }
    let replicas = state.replicas(&target.configuration);
    replicas.ok_or_else(|| NoTarget::UnknownConfiguration {
        function,
        configuration: target.configuration.clone(),
        known: state.configurations.join(", "),
    })
}

/// Why there is no number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoTarget {
    /// The metadata lack a field.
    #[error("the trigger's metadata have no `{field}`; expected {expected}")]
    MissingField {
        /// "function" or "configuration".
        field: &'static str,
        /// What it is.
        expected: &'static str,
    },
    /// The request names no ScaledObject.
    #[error("the request has no scaledObjectRef")]
    NoReference,
    /// There is no such metric.
    #[error("no metric {found:?}; expected {METRIC:?}")]
    UnknownMetric {
        /// What was asked for.
        found: String,
    },
    /// There is no such function, or nothing can be decided about it.
    #[error(
        "nothing is decided for InferenceFunction {key}; create it, correct the trigger's metadata, or see its conditions"
    )]
    UnknownFunction {
        /// What was asked for.
        key: Key,
    },
    /// The function's profile has no such configuration.
    #[error("function {function} has no configuration {configuration}; it has {known}")]
    UnknownConfiguration {
        /// The function.
        function: String,
        /// What was asked for.
        configuration: String,
        /// Those that there are.
        known: String,
    },
    /// The operator scales the function itself.
    #[error(
        "function {function} is scaled by the operator; set spec.scaling to External to have KEDA scale it"
    )]
    NotExternal {
        /// The function.
        function: String,
    },
    /// There has been no decision since the start.
    #[error("nothing has been decided yet; ask again")]
    Undecided,
}

impl NoTarget {
    /// Whether a later decision may answer the same question.
    pub(super) const fn is_for_now(&self) -> bool {
        matches!(self, Self::Undecided)
    }
}

impl From<NoTarget> for Status {
    fn from(why: NoTarget) -> Self {
        let message = why.to_string();
        match why {
            NoTarget::MissingField { .. }
            | NoTarget::NoReference
            | NoTarget::UnknownMetric { .. } => Self::invalid_argument(message),
            NoTarget::UnknownFunction { .. } | NoTarget::UnknownConfiguration { .. } => {
                Self::not_found(message)
            }
            NoTarget::NotExternal { .. } => Self::failed_precondition(message),
            NoTarget::Undecided => Self::unavailable(message),
        }
    }
}

impl TryFrom<ScaledObjectRef> for Target {
    type Error = NoTarget;

    fn try_from(mut from: ScaledObjectRef) -> Result<Self, NoTarget> {
        let mut field = |field, expected| {
            let found = from.scaler_metadata.remove(field);
            let found = found.filter(|found| !found.is_empty());
            found.ok_or(NoTarget::MissingField { field, expected })
        };
        Ok(Self {
            function: field(FUNCTION, "the name of an InferenceFunction")?,
            configuration: field(CONFIGURATION, "a configuration's name, such as c2000-b4-p2")?,
            namespace: from.namespace,
        })
    }
}

/// The metric, of which an instance takes 1.
pub(super) fn spec() -> GetMetricSpecResponse {
    GetMetricSpecResponse {
        metric_specs: vec![MetricSpec {
            metric_name: METRIC.to_owned(),
            target_size: 1,
            target_size_float: 1.0,
        }],
    }
}

/// So many instances.
pub(super) fn value(replicas: u32) -> GetMetricsResponse {
    GetMetricsResponse {
        metric_values: vec![MetricValue {
            metric_name: METRIC.to_owned(),
            metric_value: replicas.into(),
            metric_value_float: replicas.into(),
        }],
    }
}
