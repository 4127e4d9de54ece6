//! `tetris init`: prepare a store.

mod args;
mod mount;
mod recreate;
mod report;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::umount;
use nix::unistd::geteuid;
use tetris_agent::{CreateOptions, Store};
use tetris_store_layout::{IoError, StoreError, Usage};
use tetris_units::size::Bytes;

pub(crate) use self::args::InitArgs;
use self::args::{DEFAULT_PERCENT, Size};
use self::mount::{Huge, Mount, mount_tmpfs};
use self::recreate::Lost;
use super::error::{Error, Result};
use super::exit::Code;
use super::output::{self, Output};
use tetris_agent::store_location::{MOUNT_POINT, SHM_DIR, StoreLocation};

/// Default mode: everybody reads, the owner publishes.
const DEFAULT_MODE: u32 = 0o755;
/// The way to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Mounted,
    Remounted,
    MountedBefore,
    Directory,
}

impl How {
    const fn name(self) -> &'static str {
        match self {
            Self::Mounted => "mounted now",
            Self::Remounted => "mounted before, changed now",
            Self::MountedBefore => "mounted before",
            Self::Directory => "directory of a file system that others use too",
        }
    }
}

/// A store that is ready.
struct Ready {
    store: Store,
    created: bool,
    how: How,
    /// The content of the store that was recreated.
    lost: Option<Lost>,
}

/// Runs `init`.
pub(crate) fn run(args: &InitArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let dir = directory(args, location);
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    let lost = args.recreate.then(|| recreate::remove(&dir, args.force));
    let lost = lost.transpose()?;
    // A directory that had a store stays one.
    let existed = lost.is_some() || dir.join("store").exists();
    let mount = if dir.exists() { Mount::of(&dir)? } else { None };
    let here = mount.filter(|mount| {
        let canonical = dir.canonicalize();
        mount.is_tmpfs() && canonical.is_ok_and(|dir| dir == mount.point)
    });
    let is_root = geteuid().is_root();
    let (store, how) = if let Some(mount) = here {
        adopt(args, &dir, &mount)?
    } else if existed || args.no_mount || !is_root {
        directory_store(args, &dir, is_root)?
    } else {
        match mount_store(args, &dir) {
            Err(MountFailure::NotPermitted) => not_permitted(args, location, &dir)?,
            Err(MountFailure::Other(error)) => return Err(error),
            Ok(store) => (store, How::Mounted),
        }
    };
    if let Some(mode) = args.mode {
        let set = std::fs::set_permissions(store.root(), Permissions::from_mode(mode));
        set.map_err(|error| IoError::new("set the mode of", store.root(), error))?;
    }
    let ready = Ready {
        created: !existed || lost.is_some(),
        lost,
        store,
        how,
    };
    // A user who names a store for one command wants to know what the others use.
    report::print(&ready, &StoreLocation::new(None), args, out)
}

/// The directory that is meant.
fn directory(args: &InitArgs, location: &StoreLocation) -> PathBuf {
    match &args.dir {
        Some(dir) => dir.clone(),
        None if location.named => location.dir.clone(),
        None if geteuid().is_root() && !args.no_mount => MOUNT_POINT.into(),
        None => SHM_DIR.into(),
    }
}

/// Uses the tmpfs mounted on `dir`. The store comes first, so that no one else's mount is
/// changed.
fn adopt(args: &InitArgs, dir: &Path, mount: &Mount) -> Result<(Store, How)> {
    let store = Store::create(dir, &CreateOptions::default())?;
    if args.size.is_none() && args.huge.is_none() {
        return Ok((store, How::MountedBefore));
    }
    let size = args.size.map(Size::bytes).transpose()?;
    let usage = store.usage()?;
    mount
        .remount(size, args.huge, usage.inodes)
        .map_err(|error| remount_failed(error, dir, size, &usage))?;
    Ok((store, How::Remounted))
}

fn remount_failed(error: Errno, dir: &Path, size: Option<u64>, usage: &Usage) -> Error {
    let used = usage.capacity.saturating_sub(usage.free);
    let message = match size {
        Some(size) if size < used => format!(
            "cannot shrink `{}` to {}: {} are in use; free some with `tetris gc`, or choose a larger size",
            dir.display(),
            Bytes(size),
            Bytes(used)
        ),
        _ => format!("cannot change the mount `{}`: {error}", dir.display()),
    };
    Error::message(Code::Failed, message)
}

/// Uses a directory on a file system that is there.
fn directory_store(args: &InitArgs, dir: &Path, is_root: bool) -> Result<(Store, How)> {
    if args.size.is_some() || args.huge.is_some() {
        let step = if is_root {
            "it holds a store already; choose an empty directory to mount on"
        } else {
            "run this as root, or leave the option out"
        };
        return Err(Error::message(
            Code::Usage,
            format_args!(
                "--size and --huge are of a mount, and `{}` is a plain directory: {step}",
                dir.display()
            ),
        ));
    }
    let store = Store::create(dir, &CreateOptions::default())?;
    Ok((store, How::Directory))
}

/// Root without the capability to mount, as in most containers: as anybody else.
fn not_permitted(args: &InitArgs, location: &StoreLocation, dir: &Path) -> Result<(Store, How)> {
    let named = args.dir.is_some() || location.named;
    let dir = if named { dir } else { Path::new(SHM_DIR) };
    if args.size.is_some() || args.huge.is_some() {
        return Err(Error::message(
            Code::Failed,
            format_args!(
                "cannot mount a tmpfs on `{}`: not permitted, not even to this root; leave --size and --huge out to use a directory on /dev/shm, or mount from outside of the container",
                dir.display()
            ),
        ));
    }
    output::warning(format_args!(
        "cannot mount a tmpfs: not permitted, not even to this root; preparing the directory `{}`",
        dir.display()
    ));
    directory_store(args, dir, true)
}

/// The reason that nothing was mounted.
enum MountFailure {
    NotPermitted,
    Other(Error),
}

impl<E: Into<Error>> From<E> for MountFailure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Mounts a tmpfs on `dir` and creates a store there. When that fails, nothing is left.
fn mount_store(args: &InitArgs, dir: &Path) -> Result<Store, MountFailure> {
    let size = args
        .size
        .unwrap_or(Size::Percent(DEFAULT_PERCENT))
        .bytes()?;
    let made = make_mount_point(dir)?;
    let huge = args.huge.unwrap_or(Huge::WithinSize);
    let mode = args.mode.unwrap_or(DEFAULT_MODE);
    if let Err(error) = mount_tmpfs(dir, size, huge, mode) {
        remove_dirs(&made);
        return Err(match error {
            Errno::EPERM => MountFailure::NotPermitted,
            error => IoError::new("mount a tmpfs on", dir, error).into(),
        });
    }
    Store::create(dir, &CreateOptions::default()).map_err(|error| {
        if let Err(left) = umount(dir) {
            output::warning(format_args!(
                "cannot unmount `{}` again: {left}; do it with `umount`",
                dir.display()
            ));
        }
        remove_dirs(&made);
        error.into()
    })
}

/// Makes `dir` and returns the directories that were missing, the outermost first. A mount would hide
/// what is in it, so it must be empty.
fn make_mount_point(dir: &Path) -> Result<Vec<PathBuf>> {
    let missing: Vec<PathBuf> = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .map(Path::to_owned)
        .collect();
    let io = |action| move |error| IoError::new(action, dir, error);
    std::fs::create_dir_all(dir).map_err(io("create directory"))?;
    let mut entries = std::fs::read_dir(dir).map_err(io("list"))?;
    if entries.next().is_some() {
        return Err(StoreError::NotEmpty { path: dir.into() }.into());
    }
    Ok(missing.into_iter().rev().collect())
}

/// Removes directories that were just made, unless something is in them already.
fn remove_dirs(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        let _in_use = std::fs::remove_dir(dir);
    }
}
