//! Checks of a passed descriptor. All of them may block: the file system may be a process.

use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use tetris_store_layout::{FileIdentity, FileSystemType};
use tetris_wire::daemon::{IngestReason, IngestRefusal};

use super::options::IngestOptions;
use super::{IngestRequest, PassedFile, TargetStore, memory, refusal};

/// File systems of the kernel's own state (statfs(2), linux/magic.h): what their files say can
/// depend on who reads them, and here that is the daemon. proc, sysfs, debugfs, tracefs,
/// securityfs, configfs, cgroup 1 and 2, bpf, pstore, efivarfs, selinuxfs, devpts, binfmt_misc,
/// nsfs.
const PSEUDO: [u32; 15] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0xf97c_ff8c,
    0x1cd1,
    0x4249_4e4d,
    0x6e73_6673,
];
/// A file that may be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    pub(super) identity: FileIdentity,
    /// True if its file system answers in time.
    pub(super) local: bool,
}

impl Checked {
    /// For a request with which nothing was passed.
    pub(super) const NOTHING: Self = Self {
        identity: FileIdentity {
            dev: 0,
            ino: 0,
            size: 0,
            mtime: (0, 0),
            ctime: (0, 0),
        },
        local: true,
    };
}

/// Looks at a descriptor. Nothing of the file is read.
pub(super) fn inspect(
    passed: &PassedFile,
    target: &TargetStore,
    request: &IngestRequest,
    options: &IngestOptions,
) -> Result<Checked, IngestRefusal> {
    let failed = |error: std::io::Error| {
        let text = format!("cannot look at the passed descriptor: {error}");
        refusal(IngestReason::UNAVAILABLE, text)
    };
    let flags =
        fcntl(passed.file.as_fd(), FcntlArg::F_GETFL).map_err(|error| failed(error.into()))?;
    let mode = flags & OFlag::O_ACCMODE.bits();
    if flags & libc::O_PATH != 0 || mode == libc::O_WRONLY {
        let text = "the passed descriptor cannot be read from; open the file for reading";
        return Err(refusal(IngestReason::NOT_READABLE, text));
    }
    let metadata = passed.file.metadata().map_err(failed)?;
    let kind = metadata.file_type();
    if !kind.is_file() {
        let found = match () {
            () if kind.is_dir() => "a directory",
            () if kind.is_fifo() => "a FIFO",
            () if kind.is_socket() => "a socket",
            () if kind.is_char_device() || kind.is_block_device() => "a device",
            () => "something else",
        };
        let text = format!("the passed descriptor is {found}, expected a regular file");
        return Err(refusal(IngestReason::NOT_A_FILE, text));
    }
    let system = FileSystemType::of(&passed.file).map_err(failed)?;
    let magic = system.magic();
    if PSEUDO.contains(&magic) {
        let text =
            format!("the file lies on a file system of type {magic:#x}, which keeps no models");
        return Err(refusal(IngestReason::NOT_A_FILE, text));
    }
    match request {
        IngestRequest::Memory(object) => {
            memory::check(&passed.file, &metadata, magic)?;
            memory::check_length(&metadata, object)?;
        }
        IngestRequest::Assembly(_) => memory::check(&passed.file, &metadata, magic)?,
        IngestRequest::File(_) | IngestRequest::Derived(_) => {}
    }
    let identity = FileIdentity::of(&metadata);
    check_size(identity.size, target, options)?;
    Ok(Checked {
        identity,
        local: system.is_local(),
    })
}

fn check_size(
    size: u64,
    target: &TargetStore,
    options: &IngestOptions,
) -> Result<(), IngestRefusal> {
    let usage = target.store.usage().map_err(|error| {
        let text = format!("the daemon cannot look at the store: {error}");
        refusal(IngestReason::UNAVAILABLE, text)
    })?;
    let most = options.config.max_file_bytes.unwrap_or(u64::MAX);
    let limits = [
        (
            most,
            "a file may have (ingest.max_file_bytes)",
            IngestReason::TOO_LARGE,
        ),
        (
            usage.capacity,
            "the store's file system has",
            IngestReason::TOO_LARGE,
        ),
        (
            options.limit(&target.name, &usage).bytes,
            "the store may have (limit_bytes or limit_percent)",
            IngestReason::LIMIT,
        ),
    ];
    for (limit, what, reason) in limits {
        if size > limit {
            let text = format!("the file has {size} bytes, more than the {limit} that {what}");
            return Err(refusal(reason, text));
        }
    }
    Ok(())
}
