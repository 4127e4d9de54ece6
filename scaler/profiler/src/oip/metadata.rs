//! The inputs that a model says it takes.

use serde::Deserialize;

/// The most inputs of a model.
const MAX_INPUTS: usize = 256;
/// The most dimensions of an input.
const MAX_RANK: usize = 16;

/// What GET /v2/models/NAME answers, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ModelMetadata {
    /// The inputs.
    pub(crate) inputs: Vec<Input>,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Input {
    /// Its name.
    pub(crate) name: String,
    /// Its element type: `FP32`, `INT64`, `BYTES`, ...
    pub(crate) datatype: String,
    /// Its dimensions; -1 is any size.
    pub(crate) shape: Vec<i64>,
}

impl ModelMetadata {
    /// Reads and bounds it; servers may say anything.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
        if parsed.inputs.is_empty() || parsed.inputs.len() > MAX_INPUTS {
            let found = parsed.inputs.len();
            return Err(format!(
                "`inputs` has {found} entries, expected 1 to {MAX_INPUTS}"
            ));
        }
        if let Some(input) = parsed
            .inputs
            .iter()
            .find(|input| input.shape.len() > MAX_RANK)
        {
            let (name, found) = (&input.name, input.shape.len());
            return Err(format!(
                "`shape` of input `{name}` has {found} dimensions, expected at most {MAX_RANK}"
            ));
        }
        Ok(parsed)
    }
}
