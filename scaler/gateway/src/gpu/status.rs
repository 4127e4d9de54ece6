//! The page `GET /v2/gpu` of an executor.
//!
//! **Guarantees.** A page is read where it is: names are not copied, and parts only of one model at a time. So reading takes
//! less than 3 MiB beside the page, whatever it has.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::limits::{LINKS, MODELS, PART_NAME, PARTS_OF_MODEL, SIZE};
use super::page_error::PageError;
use super::text;
pub use super::text::{Entry, List, Name};

/// Number of characters of a page that a message repeats.
const MAX_SHOWN: usize = 256;

/// State of an executor and its GPU. Unknown fields are ignored.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct GpuStatus<'a> {
    /// UUID of the GPU.
    #[serde(borrow)]
    pub uuid: Name<'a>,
    /// Node of the GPU.
    #[serde(borrow, default)]
    pub node: Name<'a>,
    /// Device memory for weights, in bytes.
    pub capacity_bytes: u64,
    /// Measured bandwidth from the host, in bytes per second; `None` until it was measured.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
    /// Switch between GPU and host, within the node; `None` for a switch without a name.
    #[serde(borrow, default)]
    pub switch: Option<Name<'a>>,
    /// Links to other GPUs.
    #[serde(borrow, default)]
    pub links: List<LinkStatus<'a>, LINKS>,
    /// Models that the executor serves.
    #[serde(borrow)]
    pub models: List<ModelStatus<'a>, MODELS>,
}

/// A link from the GPU to another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LinkStatus<'a> {
    /// UUID of the other GPU.
    #[serde(borrow)]
    pub to: Name<'a>,
    /// Bandwidth in bytes per second.
    pub bytes_per_second: u64,
}

impl Entry for LinkStatus<'_> {
    const SEVERAL: &'static str = "links";
}

/// A model that an executor serves.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct ModelStatus<'a> {
    /// Name in the protocol.
    #[serde(borrow)]
    pub name: Name<'a>,
    /// Identity of its content.
    #[serde(borrow)]
    pub model: Name<'a>,
    /// Place of its weights.
    pub state: Residency,
    /// True if the executor keeps it on the GPU, until it is asked to unload it.
    #[serde(default = "yes")]
    pub held: bool,
    /// Parts by content, not read yet. Left out with `?parts=false`.
    #[serde(borrow, default)]
    parts: Option<&'a RawValue>,
}

impl Entry for ModelStatus<'_> {
    const SEVERAL: &'static str = "models";
}

impl<'a> ModelStatus<'a> {
    /// Reads the parts of the model, if the page has them.
    ///
    /// # Errors
    ///
    /// The field that is wrong.
    pub fn parts(&self) -> Result<Option<List<PartStatus<'a>, PARTS_OF_MODEL>>, PageError> {
        let Some(parts) = self.parts else {
            return Ok(None);
        };
        let parts: Option<List<PartStatus<'a>, PARTS_OF_MODEL>> = serde_json::from_str(parts.get())
            .map_err(|error| PageError::Model {
                model: shown(&self.name),
                problem: shown(&error.to_string()),
            })?;
        let bytes = parts.iter().flat_map(|parts| parts.iter());
        let bytes = bytes.fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        if bytes > SIZE {
            let model = shown(&self.name);
            return Err(PageError::Bytes { model, bytes });
        }
        Ok(parts)
    }
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
pub struct PartStatus<'a> {
    /// Identity of its content: equal identities are equal bytes.
    #[serde(borrow)]
    pub id: Name<'a, PART_NAME>,
    /// Number of bytes on the GPU.
    pub bytes: u64,
}

impl Entry for PartStatus<'_> {
    const SEVERAL: &'static str = "parts";
}

const fn yes() -> bool {
    true
}

impl<'a> GpuStatus<'a> {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// The field that is wrong or above its limit.
    pub fn parse(page: &'a [u8]) -> Result<Self, PageError> {
        text::check(page)?;
        let status: Self = serde_json::from_slice(page)
            .map_err(|error| PageError::Field(shown(&error.to_string())))?;
        if status.capacity_bytes > SIZE {
            return Err(PageError::Capacity(status.capacity_bytes));
        }
        Ok(status)
    }

    /// Returns true if a model is on its way to the GPU.
    pub(super) fn loads(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|model| model.state == Residency::Loading)
    }
}

/// The beginning of an executor's text, for a log.
pub(super) fn shown(text: &str) -> String {
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
    use super::super::limits::{NAME, PAGE, PAGE_WITH_PARTS, PARTS, RUN};
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
    fn a_page_without_a_need_is_refused() {
        assert!(
            GpuStatus::parse(b"{}")
                .unwrap_err()
                .to_string()
                .contains("uuid")
        );
    }

    fn page(head: &str, models: &str) -> String {
        format!(r#"{{"uuid": "u", "capacity_bytes": 1, {head} "models": [{models}]}}"#)
    }

    fn model(parts: &str) -> String {
        format!(r#"{{"name": "a", "model": "c", "state": "absent", "parts": {parts}}}"#)
    }

    #[test]
    fn a_page_above_a_limit_is_refused_at_the_limit() {
        let link = r#"{"to": "x", "bytes_per_second": 1}"#;
        let links = |count| format!(r#""links": [{}],"#, vec![link; count].join(","));
        let models = |count| vec![model("null"); count].join(",");
        let long = |bytes| format!(r#""node": "{}","#, "n".repeat(bytes));
        let large = page("", "").replace(": 1,", &format!(": {},", SIZE + 1));
        GpuStatus::parse(page(&links(LINKS), &models(MODELS)).as_bytes()).unwrap();
        GpuStatus::parse(page(&long(NAME), "").as_bytes()).unwrap();
        for (page, says) in [
            (page(&links(LINKS + 1), ""), "more links than 256"),
            (page("", &models(MODELS + 1)), "more models than 4096"),
            (page(&long(NAME + 1), ""), "a name of 257 bytes"),
            (large, "`capacity_bytes` is 281474976710657"),
            (page(&long(RUN + 1), ""), "longer than 1536 bytes"),
        ] {
            let error = GpuStatus::parse(page.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn parts_above_a_limit_are_refused_at_the_limit() {
        let part = |bytes: u64| format!(r#"{{"id": "x", "bytes": {bytes}}}"#);
        let parts = |count| format!("[{}]", vec![part(1); count].join(","));
        let read = |parts: &str| {
            let page = page("", &model(parts));
            let status = GpuStatus::parse(page.as_bytes()).unwrap();
            status.models[0]
                .parts()
                .map(|parts| parts.map(|parts| parts.len()))
        };
        assert_eq!(read("null").unwrap(), None);
        assert_eq!(read(&parts(PARTS_OF_MODEL)).unwrap(), Some(PARTS_OF_MODEL));
        for (parts, says) in [
            (
                parts(PARTS_OF_MODEL + 1),
                "model `a`: more parts than 16384",
            ),
            (
                format!("[{0}, {0}]", part(SIZE)),
                "model `a`: 562949953421312 bytes",
            ),
            (parts(1).replace('x', &"x".repeat(97)), "a name of 97 bytes"),
            ("7".to_owned(), "expected a list of at most 16384 parts"),
        ] {
            let error = read(&parts).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn the_longest_texts_within_the_limits_fit_on_a_page() {
        let name = "n".repeat(NAME);
        let link = format!(r#"{{"to": "{name}", "bytes_per_second": {}}}, "#, u64::MAX);
        let model = format!(
            r#"{{"name": "{name}", "model": "{name}", "bytes": {SIZE}, "state": "resident", "held": false, "parts": []}}, "#
        );
        let part = format!(
            r#"{{"id": "{}", "bytes": {SIZE}}}, "#,
            "p".repeat(PART_NAME)
        );
        let without = link.len() * LINKS + model.len() * MODELS + (32 << 10);
        assert!(without <= PAGE, "{without}");
        assert!(without + part.len() * PARTS <= PAGE_WITH_PARTS);
    }
}
