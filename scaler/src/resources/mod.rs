//! The custom resources of the group `tetris.dev`, and what they mean once checked.
//!
//! A [`ModelProfile`] says what was measured of a model; an [`InferenceFunction`] says which load a model has
//! to carry within which objective, and with which pods. The API server checks both against the schemas that
//! [`crds`] gives. What it cannot check, [`ModelProfile::checked`] and [`InferenceFunction::checked`] do:
//! every [`FieldProblem`] names the field.

mod checked_function;
mod checked_profile;
mod crds;
mod function;
mod load;
mod object;
mod percentile;
mod problem;
mod profile;
mod scale_in;
mod status;
mod template;

pub use checked_function::{CheckedFunction, LoadSource};
pub use checked_profile::{CheckedProfile, MAX_OBJECTS, Selected};
pub use crds::{CrdError, crds, crds_yaml};
pub use function::{InferenceFunction, InferenceFunctionSpec, Scaling, SloSpec};
pub use load::{LoadSpec, PrometheusLoad, StaticLoad};
pub use object::stored_object;
pub use percentile::{Percentile, PercentileError};
pub use problem::{FieldProblem, parse};
pub use profile::{
    LatencyMicros, MeasuredConfiguration, Measurement, ModelProfile, ModelProfileSpec, TensorObject,
};
pub use scale_in::ScaleInSpec;
pub use status::{Condition, ConfigurationStatus, InferenceFunctionStatus};
pub use template::{CheckedTemplate, PodTemplate};
