//! The tmpfs of the stores, mounted and unmounted by hand or by a service manager.

use anyhow::Result;

use crate::config::ConfigFlags;
use crate::mount::{ensure_mount, remove_mount};

/// Mounts the tmpfs, or changes the mounted one to the configuration, and makes its stores.
pub(super) fn mount(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    let Some(mount) = &config.tables.mount else {
        tracing::info!("nothing to mount: the configuration has no table `mount`");
        return Ok(());
    };
    let ensured = ensure_mount(mount)?;
    ensured.log();
    ensured.create_stores(&config.file.stores)?;
    Ok(())
}

/// Unmounts it.
pub(super) fn unmount(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    let Some(mount) = &config.tables.mount else {
        tracing::info!("nothing to unmount: the configuration has no table `mount`");
        return Ok(());
    };
    let path = mount.path.display();
    if remove_mount(mount, &config.file.stores)? {
        tracing::info!(%path, "tmpfs unmounted; mapped objects stay until their processes end");
    } else {
        tracing::info!(%path, "no tmpfs is mounted");
    }
    Ok(())
}
