//! Mounts of models: FUSE file systems for which the pod that keeps the model answers.
//!
//! Each model that pods of a node have mounted is one file system, whose mounts are copies of each other: so
//! there is one page cache of it. It ends with its last mount. Its source has a number, by which it is found
//! in the kernel's list of mounts. Nothing here waits for the pod that answers.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use super::error::VolumeError;
use super::target::TargetDirectory;
use crate::mount::{MountEntry, all_mounts};

/// The device of FUSE.
const DEVICE: &str = "/dev/fuse";
/// Type of the file systems, after `fuse.`.
const SUBTYPE: &str = "tetris-model";
/// Present where SELinux is on.
const SELINUX: &str = "/sys/fs/selinux/enforce";
/// A directory that everybody may read, in octal, as the kernel has it.
const ROOT_MODE: &str = "40555";

/// A new mount, attached nowhere yet.
#[derive(Debug)]
pub(super) struct ModelMount {
    /// The mount.
    pub(super) tree: OwnedFd,
    /// The descriptor by which it is answered for.
    pub(super) device: OwnedFd,
}

/// Makes the file system with this number. The kernel asks its first question at once, and waits.
pub(super) fn new_mount(number: u64, selinux_context: &str) -> io::Result<ModelMount> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = openat(CWD, DEVICE, flags, Mode::empty())?;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |option: &str, value: &str| {
        fsconfig_set_string(context.as_fd(), option, value)
            .map_err(|error| io::Error::new(error.kind(), format!("option `{option}`: {error}")))
    };
    set("source", &source(number))?;
    set("subtype", SUBTYPE)?;
    set("fd", &device.as_raw_fd().to_string())?;
    set("rootmode", ROOT_MODE)?;
    set("user_id", "0")?;
    set("group_id", "0")?;
    if Path::new(SELINUX).exists() {
        set("context", selinux_context)?;
    }
    for flag in ["allow_other", "default_permissions", "ro"] {
        fsconfig_set_flag(&context, flag)?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok(ModelMount { tree, device })
}

/// A copy of a mount with this number that a pod has; `None` if none has one.
pub(super) fn copy_of(number: u64, kubelet_dir: &Path) -> Result<Option<OwnedFd>, VolumeError> {
    let mounts = all_mounts().map_err(VolumeError::io("list the mounts for", kubelet_dir))?;
    let of_model = mounts.iter().filter(|entry| is_of(entry, number));
    for entry in of_model {
        let Ok(relative) = entry.mount_point.strip_prefix(kubelet_dir) else {
            continue;
        };
        let Some(target) = TargetDirectory::open(kubelet_dir, relative)? else {
            continue;
        };
        // It may be gone, or covered, by now.
        let Some((on_top, root)) = target.mounted()? else {
            continue;
        };
        if is_of(&on_top, number) {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_EMPTY_PATH;
            let copy = open_tree(&root, "", flags);
            return copy.map(Some).map_err(VolumeError::io(
                "copy the mount of a model at",
                target.path(),
            ));
        }
    }
    Ok(None)
}

/// Returns true if it is a mount of a model, and no other file system.
pub(super) fn is_model(entry: &MountEntry) -> bool {
    entry.fs_type.strip_prefix("fuse.") == Some(SUBTYPE)
}

/// Returns true if it is a mount of the file system with this number, read-only.
pub(super) fn is_of(entry: &MountEntry, number: u64) -> bool {
    is_model(entry) && entry.is_read_only() && entry.source == source(number)
}

fn source(number: u64) -> String {
    format!("tetris-model:{number:016x}")
}
