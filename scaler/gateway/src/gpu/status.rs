//! The page `GET /v2/gpu` of an executor.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Largest number of parts of one model: the limit of the node's mirror for the objects of a model.
const MAX_PARTS: usize = 16_384;
/// Largest number of models of an executor.
const MAX_MODELS: usize = 4_096;
/// Largest number of links of a GPU. A machine has 16 GPUs at most, each with a link to each other.
const MAX_LINKS: usize = 256;
/// Longest name or identity, in bytes. Digests have 64, and names of models by their files 200.
const MAX_NAME: usize = 512;
/// Number of characters of a page that a message repeats.
const MAX_SHOWN: usize = 256;

/// State of an executor and its GPU. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct GpuStatus {
    /// UUID of the GPU.
    #[serde(deserialize_with = "name")]
    pub uuid: String,
    /// Node of the GPU.
    #[serde(default, deserialize_with = "name")]
    pub node: String,
    /// Device memory for weights, in bytes.
    pub capacity_bytes: u64,
    /// Measured bandwidth from the host, in bytes per second; `None` until it was measured.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
    /// Switch between GPU and host, within the node; `None` for one of its own.
    #[serde(default, deserialize_with = "optional_name")]
    pub switch: Option<String>,
    /// Links to other GPUs.
    #[serde(default, deserialize_with = "at_most::<_, _, MAX_LINKS>")]
    pub links: Vec<LinkStatus>,
    /// Models that the executor serves.
    #[serde(deserialize_with = "at_most::<_, _, MAX_MODELS>")]
    pub models: Vec<ModelStatus>,
}

/// A link from the GPU to another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LinkStatus {
    /// UUID of the other GPU.
    #[serde(deserialize_with = "name")]
    pub to: String,
    /// Bandwidth in bytes per second.
    pub bytes_per_second: u64,
}

/// A model that an executor serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ModelStatus {
    /// Name in the protocol.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// Identity of its content.
    #[serde(deserialize_with = "name")]
    pub model: String,
    /// Place of its weights.
    pub state: Residency,
    /// True if the executor keeps it on the GPU, until it is told to unload it.
    #[serde(default = "yes")]
    pub held: bool,
    /// Parts by content. Left out with `?parts=false`.
    #[serde(default, deserialize_with = "parts")]
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
    #[serde(deserialize_with = "name")]
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
        serde_json::from_slice(text).map_err(|error| shown(&error.to_string()))
    }

    /// Returns true if a model is on its way to the GPU.
    pub(super) fn loads(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|one| one.state == Residency::Loading)
    }
}

/// Reads a name of a bounded length.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.len() <= MAX_NAME {
        return Ok(name);
    }
    let found = name.len();
    let problem = format_args!("found a name of {found} bytes, expected {MAX_NAME} at most");
    Err(Error::custom(problem))
}

fn optional_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let named = Option::<Named>::deserialize(deserializer)?;
    Ok(named.map(|named| named.0))
}

#[derive(Deserialize)]
struct Named(#[serde(deserialize_with = "name")] String);

fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<PartStatus>>, D::Error> {
    let parts = Option::<Parts>::deserialize(deserializer)?;
    Ok(parts.map(|parts| parts.0))
}

#[derive(Deserialize)]
struct Parts(#[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")] Vec<PartStatus>);

/// Reads a list, and stops at the first element beyond the limit.
fn at_most<'de, D: Deserializer<'de>, T: DeserializeOwned, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(AtMost::<T, MOST>(PhantomData))
}

struct AtMost<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: DeserializeOwned, const MOST: usize> Visitor<'de> for AtMost<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            if list.len() >= MOST {
                return Err(Error::invalid_length(MOST.saturating_add(1), &self));
            }
            list.push(element);
        }
        Ok(list)
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
    fn a_page_without_a_need_or_beyond_the_limits_is_refused() {
        assert!(GpuStatus::parse(b"{}").unwrap_err().contains("uuid"));
        let part = r#"{"id": "x", "bytes": 1}"#;
        let parts = vec![part; MAX_PARTS + 1].join(",");
        let page = format!(
            r#"{{"uuid": "u", "capacity_bytes": 1, "models":
                [{{"name": "a", "model": "c", "state": "absent", "parts": [{parts}]}}]}}"#
        );
        let error = GpuStatus::parse(page.as_bytes()).unwrap_err();
        assert!(
            error.contains("expected a list of at most 16384 elements"),
            "{error}"
        );
        let model = r#"{"name": "a", "model": "c", "state": "absent"}"#;
        let link = r#"{"to": "u", "bytes_per_second": 1}"#;
        let page = |uuid: &str, models: &[&str], links: &[&str]| {
            let page = format!(
                r#"{{"uuid": "{uuid}", "capacity_bytes": 1, "models": [{}], "links": [{}]}}"#,
                models.join(","),
                links.join(",")
            );
            GpuStatus::parse(page.as_bytes())
        };
        assert!(page("u", &vec![model; MAX_MODELS], &[link; MAX_LINKS]).is_ok());
        assert!(page(&"u".repeat(MAX_NAME), &[], &[]).is_ok());
        for (refused, says) in [
            (
                page("u", &vec![model; MAX_MODELS + 1], &[]),
                "at most 4096 elements",
            ),
            (
                page("u", &[], &[link; MAX_LINKS + 1]),
                "at most 256 elements",
            ),
            (
                page(&"u".repeat(MAX_NAME + 1), &[], &[]),
                "a name of 513 bytes, expected 512",
            ),
        ] {
            let error = refused.unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let long = format!(
            r#"{{"to": "{}", "bytes_per_second": 1}}"#,
            "u".repeat(MAX_NAME + 1)
        );
        assert!(page("u", &[], &[&long]).is_err());
    }
}
