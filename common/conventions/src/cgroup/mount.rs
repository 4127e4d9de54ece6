//! Mounts of cgroup hierarchies, and the paths of this process in them.

use std::path::{Path, PathBuf};

/// A line of /proc/self/mountinfo (proc(5)) for a cgroup mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    root: &'a str,
    /// Mount point.
    pub point: &'a Path,
    /// File system type: `cgroup` or `cgroup2`.
    pub kind: &'a str,
    /// Options of the file system, separated by commas. Those of version 1 name its controllers.
    pub options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line; returns `None` for any other file system.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut rest = rest.split(' ');
        let (kind, _source, options) = (rest.next()?, rest.next()?, rest.next()?);
        matches!(kind, "cgroup" | "cgroup2").then_some(Self {
            root,
            point: Path::new(point),
            kind,
            options,
        })
    }

    /// Returns the directory of the cgroup `path`, or the mount's root if the path is outside of
    /// the mount (another namespace's).
    pub fn dir_of(&self, path: &str) -> PathBuf {
        let inside = Path::new(path).strip_prefix(self.root);
        let inside = inside.unwrap_or(Path::new(""));
        if inside.components().any(|part| part.as_os_str() == "..") {
            return self.point.to_owned();
        }
        self.below(inside)
    }

    /// Returns the directory of `path`, a path from the mount's root.
    pub fn below(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        // Joining an empty path would append a slash.
        if inside.as_os_str().is_empty() {
            self.point.to_owned()
        } else {
            self.point.join(inside)
        }
    }
}

/// Returns the path of a controller in /proc/self/cgroup: `4:memory:/path`. Version 2 is the
/// controller "".
pub fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers
            .split(',')
            .any(|listed| listed == controller)
            .then_some(path)
    })
}
