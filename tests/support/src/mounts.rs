//! A mount namespace of a test's own, which vanishes with its thread.

use std::io::Write;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;
use tetris_node::mount::MountEntry;

/// Moves this thread, and those that it starts, to its own namespace. `false` for who is not
/// root, which is said.
pub fn enter() -> bool {
    if !nix::unistd::geteuid().is_root() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: needs root to mount");
        return false;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    propagation("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    true
}

/// Sets how mounts below `path` appear in other namespaces.
pub fn propagation(path: impl AsRef<Path>, flags: MsFlags) {
    let none = None::<&str>;
    mount(none, path.as_ref(), none, flags, none).unwrap();
}

/// Mounts a tmpfs with these options on a directory.
pub fn tmpfs(path: &Path, options: &str) {
    std::fs::create_dir_all(path).unwrap();
    let kind = Some("tmpfs");
    mount(kind, path, kind, MsFlags::empty(), Some(options)).unwrap();
}

/// A directory to mount in. Its mounts are taken away with it, in this namespace.
pub struct Place(TempDir);

impl Default for Place {
    fn default() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Place {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mounts = std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
        let entries = mounts
            .split(|byte| *byte == b'\n')
            .filter_map(MountEntry::parse);
        let points: Vec<_> = entries.map(|entry| entry.mount_point).collect();
        let below = points
            .iter()
            .rev()
            .filter(|point| point.starts_with(self.path()));
        for point in below {
            let _ = umount2(point, MntFlags::MNT_DETACH);
        }
    }
}
