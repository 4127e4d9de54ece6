//! Files of this machine.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{StreamExt, stream};
use tetris_folder::MAX_FILES;
use tetris_loader::{LoadError, hub};

use super::{Body, SmallFile};
use crate::error::{PullError, Trouble};
use crate::listing::{Listing, RemoteFile};

/// Bytes read at a time.
const PIECE: u64 = 1 << 20;
/// Most folders within each other: links may lead in circles.
const DEPTH: usize = 16;

/// A folder, or a file.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    pub(crate) fn list(&self) -> Result<Listing, PullError> {
        let mut files = Vec::new();
        let metadata = fs::metadata(&self.path).map_err(|error| unreadable(&self.path, error))?;
        if metadata.is_dir() {
            collect(&self.path, "", DEPTH, &mut files)?;
        } else {
            let name = self.path.file_name().unwrap_or(self.path.as_os_str());
            let name = name.to_string_lossy().into_owned();
            files.push(file(name, &self.path, &metadata));
        }
        Listing::new(&self.path.display().to_string(), None, files)
    }

    /// Writes files, each under another name first, so that none is seen half.
    pub(crate) fn put(files: &[SmallFile]) -> Result<(), PullError> {
        for file in files {
            let path = Path::new(&file.address);
            let partial = PathBuf::from(format!("{}.{}", file.address, std::process::id()));
            let written =
                fs::write(&partial, &file.bytes).and_then(|()| fs::rename(&partial, path));
            written.map_err(|error| {
                let _may_be_missing = fs::remove_file(&partial);
                PullError::from(LoadError::io("write", path, error))
            })?;
        }
        Ok(())
    }

    pub(crate) fn open(file: &RemoteFile, range: Range<u64>) -> Result<Body, PullError> {
        let path = PathBuf::from(&file.address);
        let open = File::open(&path).map_err(|error| unreadable(&path, error))?;
        let body = stream::unfold(range.start, move |at| {
            let len = PIECE.min(range.end.saturating_sub(at));
            let piece = (len > 0).then(|| (read(&open, &path, at, len), at + len));
            std::future::ready(piece)
        });
        Ok(body.boxed())
    }
}

fn read(file: &File, path: &Path, at: u64, len: u64) -> Result<Bytes, Trouble> {
    let mut piece = vec![0; len as usize];
    file.read_exact_at(&mut piece, at)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => PullError::Changed {
                address: path.display().to_string(),
                expected: format!("at least {} bytes", at + len),
                found: "fewer".to_owned(),
            },
            _ => unreadable(path, error),
        })?;
    Ok(piece.into())
}

/// Adds the files in `dir`, whose path below the source is `prefix`. Hidden ones are left out.
fn collect(
    dir: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Vec<RemoteFile>,
) -> Result<(), PullError> {
    for entry in fs::read_dir(dir).map_err(|error| unreadable(dir, error))? {
        let path = entry.map_err(|error| unreadable(dir, error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(PullError::Path {
                source_name: dir.display().to_string(),
                path: path.to_string_lossy().escape_default().to_string(),
                problem: "it is no UTF-8",
            });
        };
        let name = format!("{prefix}{name}");
        if name
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with('.'))
        {
            continue;
        }
        let metadata = fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
        if metadata.is_dir() && depth > 0 {
            collect(&path, &format!("{name}/"), depth - 1, files)?;
        } else if metadata.is_file() {
            files.push(file(name, &path, &metadata));
        }
        if files.len() > MAX_FILES {
            break;
        }
    }
    Ok(())
}

fn file(name: String, path: &Path, metadata: &fs::Metadata) -> RemoteFile {
    RemoteFile {
        path: name,
        size: metadata.len(),
        sha256: hub::blob_claim(path),
        checksum: None,
        version: None,
        modified: metadata.modified().ok(),
        address: path.to_string_lossy().into_owned(),
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> PullError {
    LoadError::io("read", path, error).into()
}
