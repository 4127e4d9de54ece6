//! Files for the results, opened before a run that may take long.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// An open file for results.
///
/// An existing file keeps its content until the results are written. A new one is removed if they
/// never are.
pub struct OutputFile {
    path: PathBuf,
    file: File,
    is_unused: bool,
}

impl OutputFile {
    /// Opens a file for writing, or creates it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if that is not possible.
    pub fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true);
        let (file, is_unused) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (options.open(path), false),
            created => (created, true),
        };
        Ok(Self {
            path: path.to_path_buf(),
            file: file.map_err(Error::io("write results to", path))?,
            is_unused,
        })
    }

    /// Replaces the content.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if writing fails, on a full disk for example.
    pub fn write(mut self, content: &str) -> Result<()> {
        self.is_unused = false;
        let is_regular = self.file.metadata().is_ok_and(|found| found.is_file());
        let emptied = if is_regular {
            self.file.set_len(0)
        } else {
            Ok(())
        };
        emptied
            .and_then(|()| self.file.write_all(content.as_bytes()))
            .map_err(Error::io("write results to", &self.path))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_unused {
            // The run already ends with another error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_content_until_there_are_results() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        fs::write(&path, "the results of an earlier, longer run").unwrap();
        drop(OutputFile::open(&path).unwrap());
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .starts_with("the results")
        );
        OutputFile::open(&path).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_new_file_goes_if_there_are_no_results() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        drop(OutputFile::open(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_device_can_take_results() {
        let sink = OutputFile::open(Path::new("/dev/null")).unwrap();
        sink.write("results").unwrap();
    }
}
