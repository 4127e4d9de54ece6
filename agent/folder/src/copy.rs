//! Copies of a model's files in an ordinary directory, for programs that look for them there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tetris_loader::sidecar;

use crate::error::FolderError;
use crate::folder::{FolderFile, ModelFolder};

/// Bytes written at a time.
const PART: usize = 4 << 20;
/// Name of a file until all of it is written.
const UNFINISHED: &str = ".tetris-unfinished";

impl ModelFolder {
    /// Writes the files into `dir`, with the sidecars by which loads know them there, and reports the bytes of each
    /// step to `progress`. Files there with the right size and time stay as they are.
    ///
    /// # Errors
    /// When a file cannot be written. The files before it are whole; none is there in part under its name.
    pub fn copy_to(&self, dir: &Path, progress: &dyn Fn(u64)) -> Result<(), FolderError> {
        for file in &self.files {
            let path = dir.join(&file.entry.path);
            if is_there(&path, file) {
                progress(file.entry.size);
            } else {
                copy(file, &path, progress).map_err(|source| FolderError::Copy {
                    path: path.clone(),
                    source,
                })?;
            }
            write_sidecar(file, &path);
        }
        Ok(())
    }
}

fn is_there(path: &Path, file: &FolderFile) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    let modified = metadata.modified().ok();
    metadata.is_file()
        && metadata.len() == file.entry.size
        && modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            == Some(Duration::from_secs(file.entry.modified))
}

/// Copies a file through another name, so that what has the name is whole.
fn copy(file: &FolderFile, path: &Path, progress: &dyn Fn(u64)) -> io::Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent)?;
    let unfinished = Unfinished(parent.join(UNFINISHED));
    let mut written = File::create(&unfinished.0)?;
    let mut offset = 0;
    while offset < file.entry.size {
        let part = file.read(offset, PART);
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        written.write_all(&part)?;
        offset += part.len() as u64;
        progress(part.len() as u64);
    }
    let modified = UNIX_EPOCH.checked_add(Duration::from_secs(file.entry.modified));
    written.set_modified(modified.unwrap_or(UNIX_EPOCH))?;
    fs::rename(&unfinished.0, path)
}

/// A file, taken away unless it was given its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _renamed = fs::remove_file(&self.0);
    }
}

/// Writes the sidecar. Without it loads read the file, and are right.
fn write_sidecar(file: &FolderFile, path: &Path) {
    let written = match file.sidecar() {
        None => Ok(()),
        Some(Ok(bytes)) => {
            fs::write(sidecar::path_of(path), bytes).map_err(|error| error.to_string())
        }
        Some(Err(error)) => Err(format!("{error:?}")),
    };
    if let Err(error) = written {
        tracing::warn!(file = %path.display(), error, "no sidecar; loads read the file");
    }
}
