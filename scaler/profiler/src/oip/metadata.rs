//! Inputs in a model's metadata.

use serde::Deserialize;

/// Maximum number of inputs of a model.
const MAX_INPUTS: usize = 256;
/// Maximum number of dimensions of an input.
const MAX_RANK: usize = 16;

/// The reason that metadata is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum MetadataError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("`inputs` has {found} entries, expected 1 to {MAX_INPUTS}")]
    Inputs { found: usize },
    #[error("`shape` of input `{name}` has {found} dimensions, expected at most {MAX_RANK}")]
    Rank { name: String, found: usize },
}

/// The parts of the answer to GET /v2/models/NAME that the profiler reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ModelMetadata {
    /// Inputs of the model.
    pub(crate) inputs: Vec<Input>,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Input {
    /// Name of the input.
    pub(crate) name: String,
    /// Element type: `FP32`, `INT64`, `BYTES`, ...
    pub(crate) datatype: String,
    /// Dimensions; -1 for a dynamic one.
    pub(crate) shape: Vec<i64>,
}

impl ModelMetadata {
    /// Parses the metadata and checks its bounds, as it is untrusted.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, MetadataError> {
        let parsed: Self = serde_json::from_slice(answer)?;
        if parsed.inputs.is_empty() || parsed.inputs.len() > MAX_INPUTS {
            let found = parsed.inputs.len();
            return Err(MetadataError::Inputs { found });
        }
        if let Some(input) = parsed
            .inputs
            .iter()
            .find(|input| input.shape.len() > MAX_RANK)
        {
            let (name, found) = (input.name.clone(), input.shape.len());
            return Err(MetadataError::Rank { name, found });
        }
        Ok(parsed)
    }
}
