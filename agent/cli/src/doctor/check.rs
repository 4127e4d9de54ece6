//! Checks, the sections that they stand in, and their common status.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Result of a check. Later ones are worse.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    #[default]
    Ok,
    /// Worth knowing, and no fault.
    Note,
    /// Something works less well than it could: memory is private, slow or about to be short.
    Warning,
    /// Something does not work.
    Failure,
}

impl Status {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }

    /// Exit code of a program that ends with a diagnosis of this status.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok | Self::Note => 0,
            Self::Warning => WARNINGS,
            Self::Failure => FAILURES,
        }
    }
}

/// Exit code of a diagnosis whose worst check is a warning.
pub const WARNINGS: u8 = 6;
/// Exit code of a diagnosis with a failure.
pub const FAILURES: u8 = 7;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Check {
    /// Its name, one or two words.
    pub name: String,
    /// Its result.
    pub status: Status,
    /// The found state, in words.
    pub found: String,
    /// The state that there should be, where it is another.
    #[serde(default)]
    pub expected: Option<String>,
    /// The next step, where there is one: a command to run, or the thing to change.
    #[serde(default)]
    pub remedy: Option<String>,
    /// Figures behind the words: sizes in bytes, times in seconds.
    #[serde(default)]
    pub facts: Map<String, Value>,
}

impl Check {
    /// A check with this result.
    pub fn new(status: Status, name: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status,
            found: found.into(),
            expected: None,
            remedy: None,
            facts: Map::new(),
        }
    }

    /// A check that found all well.
    pub fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Status::Ok, name, found)
    }

    /// A check that found something worth knowing.
    pub fn note(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Status::Note, name, found)
    }

    /// A check that found something that works less well than it could.
    pub fn warning(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Status::Warning, name, found)
    }

    /// A check that found something that does not work.
    pub fn failure(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Status::Failure, name, found)
    }

    /// Sets [`Check::expected`].
    #[must_use]
    pub fn expected(mut self, expected: impl Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    /// Sets [`Check::remedy`].
    #[must_use]
    pub fn remedy(mut self, remedy: impl Display) -> Self {
        self.remedy = Some(remedy.to_string());
        self
    }

    /// Adds to [`Check::facts`].
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}

/// Checks of one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Section {
    /// Kind of the subject, e.g. `store` or `model`.
    pub name: String,
    /// The subject: a path, or a process.
    #[serde(default)]
    pub subject: Option<String>,
    /// The checks, in the order in which to read them.
    pub checks: Vec<Check>,
}

impl Section {
    /// A section without checks.
    pub fn new(name: impl Into<String>, subject: Option<String>) -> Self {
        Self {
            name: name.into(),
            subject,
            checks: Vec::new(),
        }
    }

    /// Reads a section that another program wrote as JSON.
    ///
    /// # Errors
    /// The text is not that of a section.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The worst result in it.
    pub fn status(&self) -> Status {
        let all = self.checks.iter().map(|check| check.status);
        all.max().unwrap_or_default()
    }
}

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The sections, in the order in which to read them.
    pub sections: Vec<Section>,
}

/// Version of the documents that the commands print (docs/json.md).
const SCHEMA_VERSION: u32 = 1;

/// The JSON of a diagnosis.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    version: &'static str,
    status: Status,
    sections: &'a [Section],
}

impl Serialize for Diagnosis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = Document {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            status: self.status(),
            sections: &self.sections,
        };
        document.serialize(serializer)
    }
}

impl Diagnosis {
    /// The worst result in it.
    pub fn status(&self) -> Status {
        let all = self.sections.iter().map(Section::status);
        all.max().unwrap_or_default()
    }

    /// Number of checks with this result.
    pub fn count(&self, status: Status) -> usize {
        let all = self.sections.iter().flat_map(|section| &section.checks);
        all.filter(|check| check.status == status).count()
    }

    /// The diagnosis as JSON, in one line.
    ///
    /// # Errors
    /// None is known: every field can be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// One line about all checks: `9 ok, 1 note, 2 warnings`.
    pub fn summary(&self) -> String {
        self.counts(&[
            (Status::Ok, "ok", "ok"),
            (Status::Note, "note", "notes"),
            (Status::Warning, "warning", "warnings"),
            (Status::Failure, "failure", "failures"),
        ])
    }

    /// As [`Diagnosis::summary`], of warnings and failures alone.
    pub fn faults(&self) -> String {
        self.counts(&[
            (Status::Warning, "warning", "warnings"),
            (Status::Failure, "failure", "failures"),
        ])
    }

    fn counts(&self, of: &[(Status, &str, &str)]) -> String {
        let mut words = Vec::new();
        for (status, one, many) in of {
            match self.count(*status) {
                0 => {}
                1 => words.push(format!("1 {one}")),
                count => words.push(format!("{count} {many}")),
            }
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(statuses: &[Status]) -> Diagnosis {
        let mut section = Section::new("test", None);
        let checks = statuses.iter().map(|status| Check::new(*status, "a", "b"));
        section.checks.extend(checks);
        Diagnosis {
            sections: vec![Section::new("empty", None), section],
        }
    }

    #[test]
    fn the_worst_check_decides_the_exit_code() {
        use Status::{Failure, Note, Ok, Warning};
        for (statuses, worst, code) in [
            (&[][..], Ok, 0),
            (&[Ok, Note][..], Note, 0),
            (&[Warning, Ok][..], Warning, 6),
            (&[Warning, Failure, Note][..], Failure, 7),
        ] {
            let status = diagnosis(statuses).status();
            assert_eq!((status, status.exit_code()), (worst, code));
        }
    }

    #[test]
    fn the_summary_counts_each_result() {
        use Status::{Failure, Ok, Warning};
        let summary = diagnosis(&[Ok, Warning, Ok, Warning, Failure]).summary();
        assert_eq!(summary, "2 ok, 2 warnings, 1 failure");
        assert_eq!(diagnosis(&[Ok, Failure]).faults(), "1 failure");
    }

    #[test]
    fn sections_survive_json_and_arbitrary_text_is_refused() {
        let mut section = Section::new("interpreter", Some("/usr/bin/python3".into()));
        section.checks.push(
            Check::warning("patch", "not patched")
                .expected("patched")
                .remedy("tetris exec -- python serve.py")
                .fact("modules", 3),
        );
        let text = serde_json::to_string(&section).unwrap();
        assert_eq!(Section::from_json(&text).unwrap(), section);
        let least = r#"{"name": "a", "checks": [{"name": "b", "status": "ok", "found": "c"}]}"#;
        assert_eq!(Section::from_json(least).unwrap().status(), Status::Ok);
        for text in [
            "",
            "[]",
            "{\"name\": 1}",
            "{\"name\": \"a\", \"checks\": [{}]}",
        ] {
            assert!(Section::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_has_version_status_and_every_field() {
        let document = serde_json::to_value(diagnosis(&[Status::Note])).unwrap();
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["status"], "note");
        let check = &document["sections"][1]["checks"][0];
        assert!(check["expected"].is_null() && check["remedy"].is_null());
        assert!(check["facts"].is_object());
    }
}
