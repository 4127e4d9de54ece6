//! A separate mount namespace, so that no mount outlives the run.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::machine;

/// Moves this process into a new mount namespace. Returns true if that was possible.
///
/// Must be called before threads are started: only the calling thread moves, and the threads that
/// it starts. Without the necessary rights nothing changes.
pub fn enter_own_mounts() -> bool {
    if !machine::is_root() || unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return false;
    }
    // Otherwise new mounts would still propagate to the namespace of origin.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .is_ok()
}
