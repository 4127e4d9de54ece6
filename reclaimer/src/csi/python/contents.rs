//! Files of the package in the daemon's image.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tetris_store_layout::ObjectId;

/// Most files and directories of a package, and the most bytes of all. The tmpfs is charged to the
/// process that copies it, whose container may have 64 MiB.
pub(super) const MOST_FILES: usize = 4096;
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// Hexadecimal digits of the contents' digest that are part of a name.
const DIGITS: usize = 16;

/// A package: its files by their paths below the source, in order.
#[derive(Debug)]
pub(super) struct PackageContents {
    source: PathBuf,
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    bytes: u64,
    name: String,
}

impl PackageContents {
    /// Reads the package at `source`. None there is an empty one.
    pub(super) fn read(source: &Path) -> io::Result<Self> {
        let mut contents = Self {
            source: source.to_owned(),
            directories: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            name: String::new(),
        };
        match contents.list(Path::new("")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && contents.is_empty() => {}
            listed => listed?,
        }
        contents.directories.sort();
        contents.files.sort();
        contents.name = contents.digest()?;
        Ok(contents)
    }

    /// Returns true if there is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Number of bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The daemon's version and the digest of the contents.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn list(&mut self, below: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.source.join(below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                self.directories.push(path.clone());
                self.list(&path)?;
            } else if metadata.is_file() {
                self.bytes = self.bytes.saturating_add(metadata.len());
                self.files.push(path);
            } else {
                let message = format!(
                    "`{}`: expected files and directories alone; build the image anew",
                    path.display()
                );
                return Err(io::Error::other(message));
            }
            let count = self.files.len() + self.directories.len();
            if count > MOST_FILES || self.bytes > MOST_BYTES {
                let message = format!(
                    "expected at most {MOST_FILES} files of {MOST_BYTES} bytes in all, found more"
                );
                return Err(io::Error::other(message));
            }
        }
        Ok(())
    }

    fn digest(&self) -> io::Result<String> {
        let mut lines = Vec::new();
        for path in &self.directories {
            lines.push(format!("{}/", path.display()));
        }
        for path in &self.files {
            let id = ObjectId::of(&fs::read(self.source.join(path))?);
            lines.push(format!("{} {id}", path.display()));
        }
        let id = ObjectId::of(lines.join("\n").as_bytes()).to_string();
        let digits = id.get(..DIGITS).unwrap_or(&id);
        Ok(format!("{}-{digits}", env!("CARGO_PKG_VERSION")))
    }

    /// Copies all into the directory `into`, readable for everyone.
    pub(super) fn copy(&self, into: &Path) -> io::Result<()> {
        for path in &self.directories {
            let mut builder = fs::DirBuilder::new();
            builder.mode(0o755).create(into.join(path))?;
        }
        for path in &self.files {
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).create_new(true).mode(0o644);
            let mut copy = options.open(into.join(path))?;
            io::copy(&mut File::open(self.source.join(path))?, &mut copy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_from_paths_and_bytes_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        for source in [&one, &other] {
            fs::create_dir_all(source.join("package")).unwrap();
            fs::write(source.join("package/a.py"), "a").unwrap();
        }
        let name = |source: &Path| PackageContents::read(source).unwrap().name().to_owned();
        assert_eq!(name(&one), name(&other));
        assert!(name(&one).starts_with(concat!(env!("CARGO_PKG_VERSION"), "-")));
        fs::write(other.join("package/a.py"), "b").unwrap();
        let changed = name(&other);
        assert_ne!(name(&one), changed);
        fs::rename(other.join("package/a.py"), other.join("package/b.py")).unwrap();
        assert_ne!(changed, name(&other));
    }

    #[test]
    fn a_missing_package_is_empty_and_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let none = PackageContents::read(&dir.path().join("none")).unwrap();
        assert!(none.is_empty() && none.bytes() == 0);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let error = PackageContents::read(dir.path()).unwrap_err();
        assert!(error.to_string().contains("`link`"), "{error}");
    }
}
