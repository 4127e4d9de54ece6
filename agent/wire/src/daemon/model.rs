//! Models that clients keep on the node, and mounts of them.

use crate::{MAX_TEXT_BYTES, ProtocolError, Reader, Writer};

/// Maximum length of a model's name in bytes, as of the names of Kubernetes' objects.
pub const MAX_MODEL_NAME: usize = 253;

/// Returns true for the name of a model: labels of lowercase letters, digits and hyphens, separated by dots.
pub fn is_model_name(name: &str) -> bool {
    let is_letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        bytes.iter().all(|c| is_letter(*c) || *c == b'-')
            && ends
                .iter()
                .all(|end| end.is_some_and(|end| is_letter(*end)))
    };
    name.len() <= MAX_MODEL_NAME && name.split('.').all(is_label)
}

/// Stage of a model that a client keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelStage {
    /// Its bytes are being fetched.
    Pulling,
    /// It is in the store, and the client holds it there.
    Present,
    /// It could not be brought. The client tries again later.
    Failed,
    /// The store has no room for it. The client tries again when another model has given way.
    Blocked,
}

/// State of a model that a client keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReport {
    /// Stage of the model.
    pub stage: ModelStage,
    /// Bytes in the store.
    pub done: u64,
    /// Bytes of all files; 0 before they are known.
    pub total: u64,
    /// Bytes fetched per second of late.
    pub bytes_per_second: u64,
    /// The mount that the client serves; 0 if it serves none.
    pub mount: u64,
    /// The reason of a failure, for people; at most [`MAX_TEXT_BYTES`].
    pub problem: String,
}

impl ModelReport {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        let stage = match self.stage {
            ModelStage::Pulling => 1,
            ModelStage::Present => 2,
            ModelStage::Failed => 3,
            ModelStage::Blocked => 4,
        };
        to.u8(stage)
            .u64(self.done)
            .u64(self.total)
            .u64(self.bytes_per_second)
            .u64(self.mount)
            .text(&self.problem, MAX_TEXT_BYTES)
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        let stage = match from.u8()? {
            1 => ModelStage::Pulling,
            2 => ModelStage::Present,
            3 => ModelStage::Failed,
            4 => ModelStage::Blocked,
            other => return Err(from.value("1 to 4", other.into())),
        };
        Ok(Self {
            stage,
            done: from.u64()?,
            total: from.u64()?,
            bytes_per_second: from.u64()?,
            mount: from.u64()?,
            problem: from.last_text()?,
        })
    }
}

pub(super) fn decode_name(mut from: Reader<'_>) -> Result<String, ProtocolError> {
    let name = from.last_text()?;
    if is_model_name(&name) {
        Ok(name)
    } else {
        Err(from.value("a model's name of this length", name.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_objects_in_kubernetes() {
        for name in ["a", "llama-3.1-8b", "0", &"a".repeat(253)] {
            assert!(is_model_name(name), "{name}");
        }
        for name in [
            "",
            "A",
            "a_b",
            "-a",
            "a-",
            "a..b",
            ".",
            "a/b",
            "ä",
            "a\0",
            &"a".repeat(254),
        ] {
            assert!(!is_model_name(name), "{name:?}");
        }
    }
}
