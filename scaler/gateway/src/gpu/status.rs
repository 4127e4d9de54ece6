//! The page `GET /v2/gpu` of an executor.

use serde::Deserialize;

/// Largest number of parts of one model: the limit of the node's mirror for the objects of a model.
const MAX_PARTS: usize = 16_384;
/// Largest number of models of an executor.
const MAX_MODELS: usize = 4_096;
/// Number of characters of a page that a message repeats.
const MAX_SHOWN: usize = 256;

/// State of an executor and its GPU. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct GpuStatus {
    /// UUID of the GPU.
    pub uuid: String,
    /// Node of the GPU.
    #[serde(default)]
    pub node: String,
    /// Device memory for weights, in bytes.
    pub capacity_bytes: u64,
    /// Measured bandwidth from the host, in bytes per second; `None` until it was measured.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
    /// Switch between GPU and host, within the node; `None` for one of its own.
    #[serde(default)]
    pub switch: Option<String>,
    /// Links to other GPUs.
    #[serde(default)]
    pub links: Vec<LinkStatus>,
    /// Models that the executor serves.
    pub models: Vec<ModelStatus>,
}

/// A link from the GPU to another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LinkStatus {
    /// UUID of the other GPU.
    pub to: String,
    /// Bandwidth in bytes per second.
    pub bytes_per_second: u64,
}

/// A model that an executor serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ModelStatus {
    /// Name in the protocol.
    pub name: String,
    /// Identity of its content.
    pub model: String,
    /// Place of its weights.
    pub state: Residency,
    /// True if the executor keeps it on the GPU, until it is told to unload it.
    #[serde(default = "yes")]
    pub held: bool,
    /// Parts by content. Left out with `?parts=false`.
    #[serde(default)]
    pub parts: Option<Vec<PartStatus>>,
}

/// Place of a model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Residency {
    /// On the GPU.
    Resident,
    /// On their way to the GPU.
    Loading,
    /// Not on the GPU.
    Absent,
}

/// A part of a model's weights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PartStatus {
    /// Identity of its content: equal identities are equal bytes.
    pub id: String,
    /// Number of bytes on the GPU.
    pub bytes: u64,
}

const fn yes() -> bool {
    true
}

impl GpuStatus {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// The field that is wrong, as a text.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let status: Self =
            serde_json::from_slice(text).map_err(|error| shown(&error.to_string()))?;
        if status.models.len() > MAX_MODELS {
            let found = status.models.len();
            return Err(format!("{found} models, expected {MAX_MODELS} at most"));
        }
        for model in &status.models {
            let parts = model.parts.as_ref().map_or(0, Vec::len);
            if parts > MAX_PARTS {
                let name = shown(&model.name);
                return Err(format!(
                    "model `{name}`: {parts} parts, expected {MAX_PARTS} at most"
                ));
            }
        }
        Ok(status)
    }

    /// Returns true if a model is on its way to the GPU.
    pub(super) fn loads(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|one| one.state == Residency::Loading)
    }
}

/// The beginning of an executor's text, for a log.
fn shown(text: &str) -> String {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().take(MAX_SHOWN).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_leave_out_all_that_is_not_known_and_may_have_more() {
        let page = br#"{"uuid": "GPU-1", "capacity_bytes": 10, "temperature": 70, "bytes_per_second": null,
            "models": [{"name": "a", "model": "c1", "bytes": 3, "state": "loading"}]}"#;
        let status = GpuStatus::parse(page).unwrap();
        assert_eq!(
            (status.switch.clone(), status.bytes_per_second),
            (None, None)
        );
        assert!(status.loads() && status.models[0].held);
    }

    #[test]
    fn a_page_without_a_need_or_with_too_many_parts_is_refused() {
        assert!(GpuStatus::parse(b"{}").unwrap_err().contains("uuid"));
        let part = r#"{"id": "x", "bytes": 1}"#;
        let parts = vec![part; MAX_PARTS + 1].join(",");
        let page = format!(
            r#"{{"uuid": "u", "capacity_bytes": 1, "models":
                [{{"name": "a", "model": "c", "state": "absent", "parts": [{parts}]}}]}}"#
        );
        let error = GpuStatus::parse(page.as_bytes()).unwrap_err();
        assert!(error.contains("16385 parts"), "{error}");
    }
}
