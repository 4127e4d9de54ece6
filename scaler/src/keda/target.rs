//! Target of a call, and the number of instances for it.

use thiserror::Error;
use tonic::Status;

use crate::resources::Scaling;
use crate::state::{Key, Snapshot};

use super::wire::{
    GetMetricSpecResponse, GetMetricsResponse, MetricSpec, MetricValue, ScaledObjectRef,
};

/// Name of the only metric: the number of instances.
pub const METRIC: &str = "tetris-replicas";

/// Maximum length of an error's message, in characters.
const MAX_MESSAGE_CHARS: usize = 512;
/// Longest name of an object in Kubernetes.
const MAX_NAME_BYTES: usize = 253;

/// Keys of the trigger's metadata.
const FUNCTION: &str = "function";
const CONFIGURATION: &str = "configuration";

/// The configuration of a ScaledObject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Namespace of the ScaledObject and of the function.
    pub namespace: String,
    /// Name of the InferenceFunction.
    pub function: String,
    /// Name of the configuration, e.g. `c2000-b4-p2`.
    pub configuration: String,
}

/// Returns the number of instances of the configuration in the last decision.
///
/// # Errors
///
/// The [`NoTarget`] with the reason there is no number.
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

/// The reason there is no number of instances.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoTarget {
    /// Metadata without a required field.
    #[error("the trigger's metadata have no `{field}`; expected {expected}")]
    MissingField {
        /// Either "function" or "configuration".
        field: &'static str,
        /// Description of the field.
        expected: &'static str,
    },
    /// A request without a ScaledObject.
    #[error("the request has no scaledObjectRef")]
    NoReference,
    /// An unknown metric.
    #[error("no metric {found:?}; expected {METRIC:?}")]
    UnknownMetric {
        /// Requested name.
        found: String,
    },
    /// An unknown function, or one without a decision.
    #[error(
        "no decision for InferenceFunction {key}; create it, correct the trigger's metadata, or read its conditions"
    )]
    UnknownFunction {
        /// Requested function.
        key: Key,
    },
    /// A configuration that the function's profile does not have.
    #[error("function {function} has no configuration {configuration}; expected one of {known}")]
    UnknownConfiguration {
        /// Name of the function.
        function: String,
        /// Requested configuration.
        configuration: String,
        /// Names of the existing configurations.
        known: String,
    },
    /// A function that the operator scales.
    #[error(
        "function {function} is scaled by the operator; set spec.scaling to External to have KEDA scale it"
    )]
    NotExternal {
        /// Name of the function.
        function: String,
    },
    /// A name that no object can have.
    #[error("expected at most {MAX_NAME_BYTES} bytes in {field}, found {found}")]
    LongName {
        /// Name of the field.
        field: &'static str,
        /// Number of its bytes.
        found: usize,
    },
    /// No decision since the start.
    #[error("no decision yet; retry")]
    Undecided,
}

impl NoTarget {
    /// True if a later decision may answer the same question.
    pub(super) const fn is_for_now(&self) -> bool {
        matches!(self, Self::Undecided)
    }
}

impl From<NoTarget> for Status {
    fn from(why: NoTarget) -> Self {
        // The message has names of the request, and goes in a header, which clients limit.
        let message: String = why.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
        match why {
            NoTarget::MissingField { .. }
            | NoTarget::LongName { .. }
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

/// Returns a name that Kubernetes can have: a stream keeps it.
fn bounded(field: &'static str, name: String) -> Result<String, NoTarget> {
    let found = name.len();
    let fits = found <= MAX_NAME_BYTES;
    // Without the room that the message had for more.
    let shrunk = || name.into_boxed_str().into_string();
    fits.then(shrunk).ok_or(NoTarget::LongName { field, found })
}

impl TryFrom<ScaledObjectRef> for Target {
    type Error = NoTarget;

    fn try_from(mut from: ScaledObjectRef) -> Result<Self, NoTarget> {
        let mut field = |field, expected| {
            let found = from.scaler_metadata.remove(field);
            let nonempty = found.filter(|found| !found.is_empty());
            let value = nonempty.ok_or(NoTarget::MissingField { field, expected })?;
            bounded(field, value)
        };
        Ok(Self {
            function: field(FUNCTION, "the name of an InferenceFunction")?,
            configuration: field(CONFIGURATION, "a configuration's name, such as c2000-b4-p2")?,
            namespace: bounded("namespace", from.namespace)?,
        })
    }
}

/// Returns the metric, with a target of 1 per instance.
pub(super) fn spec() -> GetMetricSpecResponse {
    GetMetricSpecResponse {
        metric_specs: vec![MetricSpec {
            metric_name: METRIC.to_owned(),
            target_size: 1,
            target_size_float: 1.0,
        }],
    }
}

/// Returns `replicas` as the metric's value.
pub(super) fn value(replicas: u32) -> GetMetricsResponse {
    GetMetricsResponse {
        metric_values: vec![MetricValue {
            metric_name: METRIC.to_owned(),
            metric_value: replicas.into(),
            metric_value_float: replicas.into(),
        }],
    }
}
