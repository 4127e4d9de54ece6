//! The report as a file, which is there before the run ends.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tetris_conventions::document;

use crate::{BenchError, Report};

/// The file of `--keep`.
#[derive(Debug)]
pub(crate) struct KeptReport<'a>(Option<&'a Path>);

impl<'a> KeptReport<'a> {
    /// The report goes to this file, if there is one.
    pub fn new(path: Option<&'a PathBuf>) -> Self {
        Self(path.map(PathBuf::as_path))
    }

    /// Replaces the file. A reader finds the old document or the new one, never a part.
    pub fn write(&self, report: &Report) -> Result<(), BenchError> {
        let Some(path) = self.0 else {
            return Ok(());
        };
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let text = format!("{}\n", document::of_result(json!(report)));
        fs::write(&new, text).map_err(BenchError::io("write", &new))?;
        fs::rename(&new, path).map_err(BenchError::io("write", path))
    }
}
