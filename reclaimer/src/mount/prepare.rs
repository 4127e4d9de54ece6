//! The tmpfs of the stores at the start of a process that mounts it.

use super::{MountConfig, MountError, ensure_mount, is_tmpfs_mount};
use crate::store::StoreConfig;

/// Mounts the tmpfs or adopts the one that is there, and makes the stores configured on
/// it. One that cannot be made as configured is used as it is: pods go on as before, and `complain`
/// gets the error.
///
/// # Errors
/// When there is none afterwards.
pub fn prepare(
    mount: &MountConfig,
    stores: &[StoreConfig],
    complain: impl FnOnce(),
) -> Result<(), MountError> {
    let left = match ensure_mount(mount) {
        Ok(ensured) => {
            ensured.log();
            ensured.create_stores(stores)
        }
        Err(error) if is_tmpfs_mount(&mount.path).unwrap_or(false) => Err(error),
        Err(error) => return Err(error),
    };
    if let Err(error) = left {
        tracing::error!(%error, "the present tmpfs stays in use");
        complain();
    }
    Ok(())
}
