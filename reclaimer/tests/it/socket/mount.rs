//! A tmpfs of a test's own, which vanishes with its thread.

use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use tetris_test_support::skipped::skipped;

pub struct Mount(TempDir);

impl Mount {
    /// A tmpfs with these options; `None` for who is not root, which is said.
    pub fn tmpfs(options: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skipped("needs root to mount a tmpfs of its own");
            return None;
        }
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (kind, flags) = (Some("tmpfs"), MsFlags::empty());
        mount(kind, dir.path(), kind, flags, Some(options)).unwrap();
        Some(Self(dir))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}
