//! Lists of mounts (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use rustix::fs::{AtFlags, StatxFlags, statx};

/// Permissions to write for others than the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The list of this thread: another may be in another mount namespace.
pub(crate) fn read() -> io::Result<Vec<u8>> {
    std::fs::read("/proc/thread-self/mountinfo")
}

/// A path as a list of mounts has it: blanks and backslashes are a backslash and three octal digits.
pub fn unescaped_path(field: &[u8]) -> PathBuf {
    let octal = |rest: &[u8]| {
        let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
        u8::from_str_radix(digits, 8).ok()
    };
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = octal(after).filter(|_| first == b'\\');
        bytes.push(escaped.unwrap_or(first));
        rest = after
            .get(if escaped.is_some() { 3 } else { 0 }..)
            .unwrap_or_default();
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The mount that a file was opened through (Linux 5.8).
pub(crate) fn mount_id(file: impl AsFd) -> Option<u64> {
    let stat = loop {
        match statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
            Err(rustix::io::Errno::INTR) => {}
            stat => break stat.ok()?,
        }
    };
    let known = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    known.then_some(stat.stx_mnt_id)
}

/// The line of a mount.
pub(crate) fn line(mounts: &[u8], mount: u64) -> Option<&[u8]> {
    let id = mount.to_string();
    mounts
        .split(|&byte| byte == b'\n')
        .find(|line| line.split(|&byte| byte == b' ').next() == Some(id.as_bytes()))
}

/// Returns true if `file` was opened through an idmapped mount of this thread's mount namespace. Its owner has
/// another id there than on its file system, or none.
pub fn is_idmapped(file: impl AsFd) -> bool {
    read().is_ok_and(|mounts| is_idmapped_in(&mounts, file))
}

/// The same for the mount namespace with this list of mounts: the content of `/proc/PID/mountinfo`.
pub fn is_idmapped_in(mounts: &[u8], file: impl AsFd) -> bool {
    mount_id(file).is_some_and(|mount| has_option(mounts, mount, b"idmapped"))
}

/// Returns true if a tmpfs is mounted at `dir`, in a directory of root that no one else may write to. Root
/// of this mount namespace made such a mount: a user without rights can only mount where the user may write.
pub fn is_mounted_by_root(dir: &Path) -> bool {
    let look = || -> io::Result<bool> {
        let (mounted, parent) = (File::open(dir)?, File::open(dir.join(".."))?);
        let above = parent.metadata()?;
        let of_root = above.uid() == 0 && above.mode() & WRITABLE_BY_OTHERS == 0;
        let is_tmpfs = fstatfs(&mounted)?.filesystem_type() == TMPFS_MAGIC;
        let mounts = mount_id(&mounted).zip(mount_id(&parent));
        Ok(of_root && is_tmpfs && mounts.is_some_and(|(here, above)| here != above))
    };
    look().unwrap_or(false)
}

fn has_option(mounts: &[u8], mount: u64, option: &[u8]) -> bool {
    let options = line(mounts, mount).and_then(|line| line.split(|&byte| byte == b' ').nth(5));
    options.is_some_and(|options| {
        let mut options = options.split(|&byte| byte == b',');
        options.any(|found| found == option)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_the_mount_itself_counts() {
        let mounts = b"21 1 0:20 / / rw,relatime - ext4 /dev/vda rw,idmapped\n\
            36 21 0:42 /a /pod ro,nosuid,idmapped shared:7 - tmpfs tetris rw\n\
            361 21 0:42 /a /idmapped ro,nosuid - tmpfs tetris rw\n";
        for (mount, is) in [(21, false), (36, true), (361, false), (3, false)] {
            assert_eq!(has_option(mounts, mount, b"idmapped"), is, "{mount}");
        }
    }

    #[test]
    fn ordinary_mounts_are_not_idmapped() {
        let dir = File::open("/proc").unwrap();
        assert!(mount_id(&dir).is_some() && !is_idmapped(&dir));
    }
}
