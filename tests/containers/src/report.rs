//! Reports of programs in containers on standard output, one JSON object in a line.

use std::io::Write;

use serde::{Deserialize, Serialize};

/// One thing to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Line {
    /// A model was loaded, and its bytes are right.
    Loaded(Loaded),
    /// The bytes are right still, at the end.
    StillRight,
    /// Something that no one should be able to do was tried.
    Tried(Tried),
    /// Number of answers of each kind.
    Answers {
        /// The request.
        to: String,
        /// Each kind of answer with its number.
        counts: std::collections::BTreeMap<String, u64>,
    },
    /// All was tried.
    Done,
}

/// Report of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The way in which the file was recognized.
    pub recognized: String,
    /// Bytes mapped from the store.
    pub bytes_shared: u64,
    /// Bytes in private memory.
    pub bytes_private: u64,
    /// Bytes of the file that this process read.
    pub bytes_read: u64,
    /// The reason bytes are private.
    pub private_reason: Option<String>,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The attempt, and its file.
    pub what: String,
    /// The error's name; none when it was allowed.
    pub error: Option<String>,
}

impl Line {
    /// Prints it.
    pub fn say(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// The lines of what a program printed.
    ///
    /// # Errors
    /// For what is no such line.
    pub fn read_all(text: &str) -> serde_json::Result<Vec<Self>> {
        text.lines().map(serde_json::from_str).collect()
    }
}
