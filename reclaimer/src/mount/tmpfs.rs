//! Mounting a tmpfs and changing one, through file system contexts (fsopen(2)): every option by
//! itself, so that one that the kernel does not know is left out alone, and a mount that appears
//! with all its flags or not at all.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MoveMountFlags, fsconfig_create,
    fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, fspick,
    move_mount,
};

use super::config::MountConfig;
use super::decide::{Changes, Note};

/// Its source in lists of mounts.
const SOURCE: &str = "tetris";
/// Everyone may look, only the owner may make stores.
const MODE: &str = "0755";

/// Mounts it at the directory `config.path`.
pub(super) fn create(config: &MountConfig, selinux: bool) -> io::Result<Vec<Note>> {
    let context = Context(fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?);
    let mut notes = Vec::new();
    context.set("source", SOURCE)?;
    context.set("mode", MODE)?;
    let user = config.user.to_string();
    context.set("uid", &user)?;
    context.set("gid", &user)?;
    context.set("size", &config.size_bytes.to_string())?;
    context.set("nr_inodes", &config.inodes.to_string())?;
    notes.extend(context.set_if_known("huge", Some(config.huge.as_str()))?);
    if config.noswap {
        notes.extend(context.set_if_known("noswap", None)?);
    }
    match &config.selinux_context {
        Some(label) if selinux => context.set("context", label)?,
        Some(_) => notes.push(Note::new("context", "left out: SELinux is off")),
        None => {}
    }
    let made = fsconfig_create(&context.0);
    made.map_err(|error| context.explained("create a tmpfs", error))?;
    let flags = MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = fsmount(&context.0, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, "", CWD, &config.path, from)?;
    Ok(notes)
}

/// Changes the one mounted at `path`, for all its users.
pub(super) fn change(path: &Path, changes: &Changes) -> io::Result<Vec<Note>> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_SYMLINK_NOFOLLOW;
    let context = Context(fspick(CWD, path, flags)?);
    let mut notes = Vec::new();
    if let Some(size) = changes.size_bytes {
        context.set("size", &size.to_string())?;
    }
    if let Some(inodes) = changes.inodes {
        context.set("nr_inodes", &inodes.to_string())?;
    }
    if let Some(huge) = changes.huge {
        notes.extend(context.set_if_known("huge", Some(huge.as_str()))?);
    }
    let changed = fsconfig_reconfigure(&context.0);
    changed.map_err(|error| context.explained("change the tmpfs", error))?;
    Ok(notes)
}

struct Context(OwnedFd);

impl Context {
    fn set(&self, option: &str, value: &str) -> io::Result<()> {
        fsconfig_set_string(self.0.as_fd(), option, value)
            .map_err(|error| self.explained(&format!("set `{option}={value}`"), error))
    }

    /// Sets an option that older kernels, or kernels built without it, do not know; the
    /// note mentions that it is left out.
    fn set_if_known(&self, option: &'static str, value: Option<&str>) -> io::Result<Option<Note>> {
        let set = match value {
            Some(value) => fsconfig_set_string(self.0.as_fd(), option, value),
            None => fsconfig_set_flag(self.0.as_fd(), option),
        };
        match set {
            Ok(()) => Ok(None),
            Err(Errno::INVAL) => {
                let said = self.said().unwrap_or_else(|| "invalid argument".to_owned());
                let what = format!("left out, since this kernel does not take it: {said}");
                Ok(Some(Note::new(option, what)))
            }
            Err(error) => Err(self.explained(&format!("set `{option}`"), error)),
        }
    }

    /// The kernel's error with the messages of its log, beyond the number.
    fn explained(&self, action: &str, error: Errno) -> io::Error {
        let said = self.said().map(|said| format!(": {said}"));
        let message = format!("cannot {action}: {error}{}", said.unwrap_or_default());
        io::Error::new(io::Error::from(error).kind(), message)
    }

    /// The last message in the context's log, without its level.
    fn said(&self) -> Option<String> {
        let mut last = None;
        let mut line = [0; 512];
        // One message for each read, and ENODATA after the last.
        while let Ok(length) = rustix::io::read(&self.0, &mut line) {
            let Some(bytes) = line.get(2..length) else {
                break;
            };
            last = Some(String::from_utf8_lossy(bytes).trim_end().to_owned());
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kernel without `noswap` answers, without such a kernel.
    #[test]
    fn an_option_that_the_kernel_does_not_know_is_left_out_and_said() {
        let context = match fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(context) => Context(context),
            Err(error) => {
                use std::io::Write;
                let _ = writeln!(io::stderr(), "SKIPPED: fsopen needs root: {error}");
                return;
            }
        };
        let note = context.set_if_known("no_such_option", None).unwrap();
        let note = note.unwrap().to_string();
        assert!(note.contains("`no_such_option`: left out"), "{note}");
        assert!(note.contains("Unknown parameter"), "{note}");
        let note = context.set_if_known("huge", Some("sometimes")).unwrap();
        assert!(note.unwrap().to_string().contains("Bad value"));
        // The others are set all the same, and a wrong one is an error.
        context.set("size", "1048576").unwrap();
        let error = context.set("nr_inodes", "many").unwrap_err().to_string();
        assert!(error.contains("cannot set `nr_inodes=many`"), "{error}");
        assert!(error.contains("Bad value"), "{error}");
        fsconfig_create(&context.0).unwrap();
    }
}
