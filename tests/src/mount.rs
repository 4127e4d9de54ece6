//! Mounts that are undone when they are dropped, and by the kernel when the process is killed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// A file system mounted on a directory.
#[derive(Debug)]
pub struct Mount {
    place: PathBuf,
    /// The directory, where it is one of the mount's own.
    own: Option<TempDir>,
}

impl Mount {
    /// A tmpfs with `options`, e.g. `size=16m,nr_inodes=100,huge=within_size`. Needs root.
    pub fn tmpfs(options: &str) -> anyhow::Result<Self> {
        Self::new("tmpfs", Some("tmpfs"), MsFlags::empty(), Some(options))
            .with_context(|| format!("mount a tmpfs with {options}"))
    }

    /// Read-only bind mount of `path`. Needs root.
    pub fn read_only(path: &Path) -> anyhow::Result<Self> {
        let bind = Self::new(path, None, MsFlags::MS_BIND, None)?;
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(
            None::<&Path>,
            bind.path(),
            None::<&str>,
            flags,
            None::<&str>,
        )
        .context("remount read-only")?;
        Ok(bind)
    }

    /// Mount of a block device on `place`. Needs root.
    pub fn device(
        device: &Path,
        kind: &str,
        read_only: bool,
        place: &Path,
    ) -> anyhow::Result<Self> {
        let mut flags = MsFlags::empty();
        flags.set(MsFlags::MS_RDONLY, read_only);
        Self::on(place, device, Some(kind), flags, None)
            .with_context(|| format!("mount {} as {kind}", device.display()))
    }

    /// An overlay with `options`, on its own directory. Needs root.
    pub fn overlay(options: &str) -> anyhow::Result<Self> {
        Self::new("overlay", Some("overlay"), MsFlags::empty(), Some(options))
            .with_context(|| format!("mount an overlay with {options}"))
    }

    /// Bind mount of `path` at `place`. Needs root.
    pub fn bind(path: &Path, place: &Path) -> anyhow::Result<Self> {
        Self::on(place, path, None, MsFlags::MS_BIND, None)
    }

    fn on(
        place: &Path,
        source: &Path,
        kind: Option<&str>,
        flags: MsFlags,
        options: Option<&str>,
    ) -> anyhow::Result<Self> {
        own_namespace()?;
        mount(Some(source), place, kind, flags, options)?;
        Ok(Self {
            place: place.to_owned(),
            own: None,
        })
    }

    fn new(
        source: impl AsRef<Path>,
        kind: Option<&str>,
        flags: MsFlags,
        options: Option<&str>,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut mounted = Self::on(dir.path(), source.as_ref(), kind, flags, options)?;
        mounted.own = Some(dir);
        Ok(mounted)
    }

    /// Its mount point.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Makes the mount read-only from now on, or writable again.
    pub fn set_read_only(&self, read_only: bool) -> anyhow::Result<()> {
        let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
        flags.set(MsFlags::MS_RDONLY, read_only);
        mount(
            None::<&Path>,
            self.path(),
            None::<&str>,
            flags,
            None::<&str>,
        )?;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

/// Moves this thread, and what it starts from now on, to its own mount namespace: mounts are
/// seen by this test alone and vanish with it, even if it is killed.
fn own_namespace() -> anyhow::Result<()> {
    thread_local! {
        static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    if DONE.get() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS).context("unshare the mount namespace")?;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(
        None::<&Path>,
        &PathBuf::from("/"),
        None::<&str>,
        flags,
        None::<&str>,
    )
    .context("make mounts private")?;
    DONE.set(true);
    Ok(())
}
