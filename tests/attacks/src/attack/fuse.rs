//! A file system in user space with model files that are read slowly, never, or in part: a volume of a hostile pod.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::libc::{EIO, ENOENT, ENOSYS};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::model;

/// Files of each kind. Their node ids are 2 and up.
pub const FILES: u64 = 32;
/// Bytes of each file's tensor.
const LEN: u64 = 64 << 20;
/// Time for which a read of a slow file waits.
const PAUSE: Duration = Duration::from_millis(300);
/// Bytes of an answer to a slow read.
const PIECE: usize = 4096;
const ROOT: u64 = 1;

/// Name of a slow file.
pub fn slow(number: u64) -> String {
    format!("slow-{number}")
}

/// Name of a file whose reads never return.
pub fn hung(number: u64) -> String {
    format!("hung-{number}")
}

/// Name of a file whose reads fail from [`WHOLE`] bytes on.
pub fn broken(number: u64) -> String {
    format!("broken-{number}")
}

/// Kinds of files, in the order of the node ids of one number.
const KINDS: [fn(u64) -> String; 3] = [slow, hung, broken];
const SLOW: u64 = 0;
const BROKEN: u64 = 2;
/// Bytes of a broken file that can be read: the header, and a part of the tensor.
const WHOLE: u64 = 5 << 20;

/// Makes a folder for the file system, in a mount namespace of this process. Needs root.
///
/// # Errors
/// When there cannot be one.
pub fn folder(scratch: &Path) -> Result<PathBuf> {
    unshare(CloneFlags::CLONE_NEWNS).context("unshare the mount namespace")?;
    let none = None::<&str>;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, flags, none).context("make mounts private")?;
    let folder = scratch.join("user-space");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Mounts the file system on `dir`, for all users, and serves it until the process ends.
///
/// # Errors
/// Without FUSE, or the right to mount.
pub fn serve(dir: &Path) -> Result<()> {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .context("open /dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        device.as_raw_fd()
    );
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let (name, kind) = (Some("tetris-attack"), Some("fuse"));
    mount(name, dir, kind, flags, Some(options.as_str())).context("mount FUSE")?;
    let device = Arc::new(device);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read) = (&*device).read(&mut buffer) {
            if let Some(request) = buffer.get(..read).and_then(Request::parse) {
                request.answer(&device);
            }
        }
    });
    Ok(())
}

/// A request of the kernel (`struct fuse_in_header`).
struct Request<'a> {
    operation: u32,
    unique: u64,
    node: u64,
    payload: &'a [u8],
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self {
            operation: u32::from_le_bytes(number(bytes, 4)?),
            unique: u64::from_le_bytes(number(bytes, 8)?),
            node: u64::from_le_bytes(number(bytes, 16)?),
            payload: bytes.get(40..)?,
        })
    }

    fn answer(&self, device: &Arc<File>) {
        match self.operation {
            // LOOKUP
            1 => match self.named() {
                Some(node) => self.reply(device, &entry(node)),
                None => reply(device, self.unique, -ENOENT, &[]),
            },
            // FORGET, INTERRUPT and BATCH_FORGET have no answer.
            2 | 36 | 42 => {}
            // GETATTR
            3 => self.reply(device, &[&[0; 16][..], &attributes(self.node)].concat()),
            // OPEN and OPENDIR: past the page cache, so that each read comes here.
            14 | 27 => {
                let direct_io = 1_u64;
                self.reply(device, &[0, direct_io].map(u64::to_le_bytes).concat());
            }
            // READ
            15 => self.read(device),
            // STATFS
            17 => self.reply(device, &[0; 80]),
            // RELEASE, FLUSH and RELEASEDIR
            18 | 25 | 29 => self.reply(device, &[]),
            // INIT
            26 => self.reply(device, &init()),
            _ => reply(device, self.unique, -ENOSYS, &[]),
        }
    }

    fn named(&self) -> Option<u64> {
        let name = self.payload.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name).ok()?;
        (0..FILES).find_map(|number| {
            let kinds = KINDS.len() as u64;
            let kind = (0..kinds)
                .zip(KINDS)
                .find(|(_, named)| name == named(number));
            kind.map(|(kind, _)| ROOT + 1 + number * kinds + kind)
        })
    }

    fn read(&self, device: &Arc<File>) {
        let kind = (self.node - ROOT - 1) % KINDS.len() as u64;
        let (Some(offset), Some(size)) = (number(self.payload, 8), number(self.payload, 16)) else {
            return;
        };
        let (offset, size) = (u64::from_le_bytes(offset), u32::from_le_bytes(size));
        match kind {
            SLOW => {
                let (device, unique, node) = (Arc::clone(device), self.unique, self.node);
                std::thread::spawn(move || {
                    std::thread::sleep(PAUSE);
                    let bytes = content(node, offset, u64::from(size).min(PIECE as u64));
                    reply(&device, unique, 0, &bytes);
                });
            }
            BROKEN if offset >= WHOLE => reply(device, self.unique, -EIO, &[]),
            BROKEN => self.reply(device, &content(self.node, offset, size.into())),
            // No one answers.
            _ => {}
        }
    }

    fn reply(&self, device: &File, payload: &[u8]) {
        reply(device, self.unique, 0, payload);
    }
}

/// Bytes of a file from `offset`, at most `len`.
fn content(node: u64, offset: u64, len: u64) -> Vec<u8> {
    let header = model::header(LEN, "");
    let end = header.len() as u64 + LEN;
    let len = len.min(end.saturating_sub(offset));
    let byte = |at: u64| match header.get(at as usize) {
        Some(byte) => *byte,
        None => (at ^ node) as u8,
    };
    (offset..offset + len).map(byte).collect()
}

/// Writes an answer (`struct fuse_out_header`). The kernel may have given the request up.
fn reply(mut device: &File, unique: u64, error: i32, payload: &[u8]) {
    let len = 16 + payload.len() as u32;
    let header = [len.to_le_bytes(), error.to_le_bytes()].concat();
    let _given_up = device.write(&[&header, &unique.to_le_bytes()[..], payload].concat());
}

/// `struct fuse_init_out` of version 7.31.
fn init() -> Vec<u8> {
    let mut out = [7_u32, 31, 0, 0].map(u32::to_le_bytes).concat();
    // Requests in the background, and when there are too many of them.
    out.extend([64_u16, 48].map(u16::to_le_bytes).concat());
    // The longest write, and the granularity of times.
    out.extend([4096_u32, 1].map(u32::to_le_bytes).concat());
    out.resize(64, 0);
    out
}

/// `struct fuse_entry_out`: nothing is kept by the kernel.
fn entry(node: u64) -> Vec<u8> {
    let mut out = node.to_le_bytes().to_vec();
    out.resize(40, 0);
    out.extend(attributes(node));
    out
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let size = model::header(LEN, "").len() as u64 + LEN;
    let old = 1_600_000_000;
    let mut out = [node, size, size / 512, old, old, old]
        .map(u64::to_le_bytes)
        .concat();
    let mode = if node == ROOT { 0o40_755 } else { 0o100_444 };
    // Nanoseconds of three times, mode, links, user, group, device, block size, flags.
    let rest = [0_u32, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    out.extend(rest.map(u32::to_le_bytes).concat());
    out
}
