//! The layers of an overlay: found by the mount that a file was opened through, in this process's list of mounts.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;

use super::{FileSystem, FileSystemType, Known};
use crate::mount_list;

/// Options of overlayfs that name one layer, and the one that names several.
const ONE_LAYER: [&[u8]; 3] = [b"lowerdir+", b"datadir+", b"upperdir"];
const LAYERS: &[u8] = b"lowerdir";

/// A digest of what the layers are; `None` if one of them is unsound or cannot be seen from here.
pub(super) fn instance(file: &File) -> Option<u64> {
    let mounts = mount_list::read().ok()?;
    let layers = layers(&mounts, mount_list::mount_id(file)?)?;
    let mut hasher = blake3::Hasher::new();
    for layer in layers {
        let (system, dev, ino) = directory(&layer)?;
        hasher.update(&system.magic.to_le_bytes());
        for number in [system.id, system.instance, dev, ino] {
            hasher.update(&number.to_le_bytes());
        }
    }
    let first = hasher.finalize().as_bytes().first_chunk().copied();
    first.map(u64::from_le_bytes)
}

/// File system, device and inode of a layer. An overlay is none: its own layers may be anything.
fn directory(path: &Path) -> Option<(FileSystem, u64, u64)> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY);
    let dir = options.open(path).ok()?;
    let kind = FileSystemType::of(&dir).ok()?;
    let metadata = dir.metadata().ok()?;
    let system = match kind.known()? {
        Known::Sound => FileSystem::sound(&dir, kind, metadata.dev())?,
        Known::Layers | Known::Local => return None,
    };
    Some((system, metadata.dev(), metadata.ino()))
}

/// The directories that the overlay with this mount id is made of, as its mount options name them. `None` if the mount is not in
/// the list, is no overlay, or has a layer whose path has no meaning here: a relative one.
fn layers(mounts: &[u8], mount: u64) -> Option<Vec<PathBuf>> {
    let line = mount_list::line(mounts, mount)?;
    // Optional fields end with a hyphen; then come type, source and options (proc_pid_mountinfo(5)).
    let mut fields = line.split(|&byte| byte == b' ');
    fields.find(|&field| field == b"-")?;
    if fields.next()? != b"overlay" {
        return None;
    }
    let options = fields.nth(1)?;
    let mut layers = Vec::new();
    for option in options.split(|&byte| byte == b',') {
        let Some(equals) = option.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, value) = (option.get(..equals)?, option.get(equals + 1..)?);
        if name == LAYERS {
            layers.extend(listed(value)?);
        } else if ONE_LAYER.contains(&name) {
            layers.push(unescaped(value)?.iter().map(|byte| byte.value).collect());
        }
    }
    let layers: Vec<_> = layers
        .into_iter()
        .map(|layer| PathBuf::from(OsString::from_vec(layer)))
        .collect();
    (!layers.is_empty() && layers.iter().all(|layer| layer.is_absolute())).then_some(layers)
}

/// The directories of a list with colons between them, and two before those that only hold data. A backslash takes a colon's meaning.
fn listed(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut layers = vec![Vec::new()];
    let mut bytes = unescaped(value)?.into_iter();
    while let Some(byte) = bytes.next() {
        match byte.value {
            b':' if !byte.escaped => layers.push(Vec::new()),
            b'\\' => layers.last_mut()?.push(bytes.next()?.value),
            other => layers.last_mut()?.push(other),
        }
    }
    layers.retain(|layer| !layer.is_empty());
    Some(layers)
}

/// A byte of an option's value.
struct Byte {
    value: u8,
    /// True if the kernel wrote it in digits; some kernels write a colon of a directory's name so.
    escaped: bool,
}

/// Undoes the escapes of the list of mounts: a backslash and three octal digits.
fn unescaped(value: &[u8]) -> Option<Vec<Byte>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let escape = if first == b'\\' {
            after.split_first_chunk::<3>()
        } else {
            None
        };
        let digits = escape.filter(|(digits, _)| digits.iter().all(|d| matches!(d, b'0'..=b'7')));
        match digits {
            Some((digits, after)) => {
                let value = digits
                    .iter()
                    .fold(0u16, |value, digit| value * 8 + u16::from(digit - b'0'));
                bytes.push(Byte {
                    value: u8::try_from(value).ok()?,
                    escaped: true,
                });
                rest = after;
            }
            None => bytes.push(Byte {
                value: first,
                escaped: false,
            }),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layers of an overlay with these options, as text.
    fn of(options: &str) -> Option<Vec<String>> {
        let mounts = format!(
            "21 1 0:20 / / rw,relatime - ext4 /dev/vda rw,lowerdir=/no\n\
             36 21 0:42 / /merged rw shared:7 - overlay overlay {options}\n\
             361 21 0:43 / /other rw - overlay overlay rw,lowerdir=/other\n"
        );
        let text = |layer: PathBuf| layer.into_os_string().into_string().unwrap();
        layers(mounts.as_bytes(), 36).map(|layers| layers.into_iter().map(text).collect())
    }

    fn paths(layers: &[&str]) -> Vec<String> {
        layers.iter().map(|&layer| layer.to_owned()).collect()
    }

    #[test]
    fn lower_and_upper_layers_and_those_of_data_are_found() {
        assert_eq!(
            of("rw,lowerdir=/a:/b,upperdir=/u,workdir=/w,redirect_dir=on"),
            Some(paths(&["/a", "/b", "/u"]))
        );
        assert_eq!(
            of("ro,lowerdir=/a::/data:/d2"),
            Some(paths(&["/a", "/data", "/d2"]))
        );
        assert_eq!(
            of("ro,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d"),
            Some(paths(&["/a:b", "/c", "/d"]))
        );
    }

    #[test]
    fn escapes_of_the_list_and_of_overlayfs_are_undone() {
        assert_eq!(
            of(r"ro,lowerdir=/with\040blank\054comma:/b\134:colon:/c\134\134back"),
            Some(paths(&["/with blank,comma", "/b:colon", r"/c\back"]))
        );
        assert_eq!(of(r"ro,lowerdir=/a\072b:/c"), Some(paths(&["/a:b", "/c"])));
        assert_eq!(of(r"ro,lowerdir+=/a\134b\011c"), Some(paths(&["/a\\b\tc"])));
    }

    #[test]
    fn what_does_not_say_which_directories_has_no_layers() {
        for options in [
            "rw",
            "ro,lowerdir=",
            "ro,lowerdir=l/A:/b",
            "ro,lowerdir=/a,upperdir=u",
            r"ro,lowerdir=/a\134",
            r"ro,lowerdir=/a\777",
        ] {
            assert_eq!(of(options), None, "{options}");
        }
        assert_eq!(
            layers(b"36 21 0:42 / /m rw - ext4 x rw,lowerdir=/a\n", 36),
            None
        );
        assert_eq!(layers(b"36 21 0:42 / /m rw", 36), None);
        assert_eq!(layers(b"", 36), None);
    }
}
