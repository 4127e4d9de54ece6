//! A mount namespace of a test's own, which vanishes with its thread.

use std::io::Write;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Moves this thread, and those that it starts, to a namespace of its own. `false` for who is not root, which is said.
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
