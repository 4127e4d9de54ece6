//! Custom resources of the group `tetris.dev`, and their validated forms.
//!
//! A [`ModelProfile`] holds the measurements of a model. An [`InferenceFunction`] names a model's
//! load, objective and pods. A [`Model`] is to be on nodes before pods ask for it. The API server checks all against the schemas of [`crds`].
//! [`ModelProfile::checked`] and [`InferenceFunction::checked`] check the rest; each
//! [`FieldProblem`] names its field.

mod callers;
mod checked_function;
mod checked_profile;
mod crds;
mod engine;
mod for_function;
mod function;
mod load;
mod model;
mod object;
mod percentile;
mod problem;
mod profile;
mod rollout;
mod scale_in;
mod served_paths;
mod status;
mod template;

pub use callers::{AllowedCallers, CallersSpec};
pub use checked_function::{CheckedFunction, CheckedGpu, PodSource};
pub use checked_profile::{CheckedProfile, GpuLoad, MAX_OBJECTS};
pub use crds::{CrdError, crds, crds_yaml};
pub use engine::{CheckedProfiling, EngineSpec, ProfilingSpec};
pub use for_function::ForFunction;
pub use function::{GpuSpec, InferenceFunction, InferenceFunctionSpec, Scaling, SloSpec};
pub use load::{GatewayLoad, LoadSource, LoadSpec, PrometheusLoad, StaticLoad};
pub use model::{
    LISTED_NODES, Model, ModelDescription, ModelNodeStatus, ModelNodes, ModelSpec, ModelStatus,
};
pub use object::stored_object;
pub use percentile::{Percentile, PercentileError};
pub use problem::{FieldProblem, parse};
pub use profile::{
    LatencyMicros, MeasuredConfiguration, MeasuredGpu, MeasuredGpuLoad, Measurement, ModelProfile,
    ModelProfileSpec, TensorObject,
};
pub use rollout::RolloutSpec;
pub use scale_in::ScaleInSpec;
pub use served_paths::{PathsError, ServedPaths};
pub use status::{Condition, ConfigurationStatus, InferenceFunctionStatus};
pub use template::{CheckedTemplate, PodTemplate};
