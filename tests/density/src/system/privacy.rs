//! A mount namespace of its own, so that no mount can outlive the run, however it ends.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::machine;

/// Moves this process into a mount namespace of its own. Returns whether that was possible.
///
/// Must be called before threads are started: only the calling thread moves, and those that
/// it starts. Without the rights for it, nothing changes.
pub fn enter_own_mounts() -> bool {
    if !machine::is_root() || unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return false;
    }
    // Otherwise new mounts would still propagate to where this process came from.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .is_ok()
}
