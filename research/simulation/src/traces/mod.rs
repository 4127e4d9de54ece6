//! Requests from files of real traces: Azure Functions 2019 and 2021, and BurstGPT.
//!
//! [`RecordedTrace::read`] takes the requests of a [`Window`] from a file in one pass, row by row; the header decides
//! the format. [`RecordedTrace::sample`] chooses functions, and [`ScaledTimes`] changes the number of requests.
//! [`TraceArgs`] are the arguments of both commands.
//!
//! **Guarantees.** Choice and scaling follow from seeds, on every machine. Memory is bounded by [`Limits`], whatever a
//! file contains.

mod args;
mod bounded;
mod error;
mod fields;
mod format;
mod function;
mod reader;
mod rows;
mod run;
mod sample;
mod scale;
mod window;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use args::{TraceArgs, TraceFile};
pub use error::TraceError;
pub use format::TraceFormat;
pub use function::RecordedFunction;
pub use run::RunRequest;
pub use sample::{RunLoad, SampleRule, TraceSample};
pub use scale::{Factor, ScaledTime, ScaledTimes};
pub use window::Window;

use sample::printable;

/// Bounds of the work that a file causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a row, in bytes.
    pub row_bytes: usize,
    /// Maximum length of an identifier, in bytes.
    pub id_bytes: usize,
    /// Maximum number of functions with requests in the window.
    pub functions: usize,
    /// Maximum number of elements in memory, of 16 bytes at most: requests with a time, or minutes of a function with
    /// requests.
    pub entries: usize,
    /// Maximum number of requests in the window.
    pub requests: u64,
}

impl Default for Limits {
    /// Returns limits that whole published files keep: a row of 1440 numbers, some 80,000 functions, ten million requests
    /// with times.
    fn default() -> Self {
        Self {
            row_bytes: 1 << 16,
            id_bytes: 256,
            functions: 1 << 18,
            entries: 1 << 26,
            requests: 1 << 40,
        }
    }
}

/// Functions of a file with their requests in a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedTrace {
    #[serde(serialize_with = "printable_path")]
    path: PathBuf,
    format: TraceFormat,
    window: Window,
    #[serde(serialize_with = "number")]
    functions: Vec<Arc<RecordedFunction>>,
}

fn printable_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&printable(path))
}

fn number<S: Serializer>(
    functions: &[Arc<RecordedFunction>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(functions.len() as u64)
}

impl RecordedTrace {
    /// Reads the requests of `window` from the file at `path`, which may be a pipe.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, has no supported header, breaks its schema or a limit, or ends before the window.
    pub fn read(path: &Path, window: Window, limits: &Limits) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::read_from(path, file, window, limits)
    }

    /// Reads from `file`, which errors call `path`.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read`] does.
    pub fn read_from(
        path: &Path,
        file: impl Read,
        window: Window,
        limits: &Limits,
    ) -> Result<Self, TraceError> {
        reader::read(path, file, window, limits)
    }

    /// Format of the file.
    pub const fn format(&self) -> TraceFormat {
        self.format
    }

    /// Describes the window in one sentence.
    pub fn about(&self) -> String {
        format!(
            "{} ({}), {}, {} functions",
            printable(&self.path),
            self.format,
            self.window,
            self.functions.len()
        )
    }

    /// Functions with requests in the window, in the file's order.
    pub fn functions(&self) -> &[Arc<RecordedFunction>] {
        &self.functions
    }
}
