//! A model file that is being read: opened once, read by position, watched for changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc;
use nix::unistd::{Whence, lseek};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use tetris_store_layout::{FileIdentity, FileSystem, IdentityBy, IdentityKey, ManifestKind};

use crate::error::LoadError;
use crate::header::Header;
use crate::settling::Settling;

/// Why a load attempt ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file changed under the reader: worth another attempt.
    Changed,
    /// Anything else.
    Load(LoadError),
}

impl<E: Into<LoadError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Load(error.into())
    }
}

/// An open model file.
///
/// Never mapped: a mapping of a file that someone truncates ends in SIGBUS (INV-9).
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    /// User who owns the file.
    owner: u32,
    /// Its file system, when it was asked for; none where the file is not recognized by `stat`.
    system: OnceLock<Option<FileSystem>>,
    settling: Settling,
    /// Counts what is read, and can end it.
    monitor: Option<Arc<Monitor>>,
}

/// Watches the reading of a file from another thread.
#[derive(Debug, Default)]
pub struct Monitor {
    read: AtomicU64,
    cancelled: AtomicBool,
}

impl Monitor {
    /// Bytes read so far; a byte read twice counts twice.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Ends the reading at the next piece.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the reading was to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        // A FIFO would block an open for reading until someone writes.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| LoadError::io("open", path, error))?;
        Self::of_file(file, path, None)
    }

    /// A file that is open for reading; `path` is for messages.
    pub(crate) fn of_file(
        file: File,
        path: &Path,
        monitor: Option<Arc<Monitor>>,
    ) -> Result<Self, LoadError> {
        let metadata = file
            .metadata()
            .map_err(|error| LoadError::io("stat", path, error))?;
        if !metadata.is_file() {
            return Err(LoadError::NotAFile { path: path.into() });
        }
        Ok(Self::new(path.into(), file, &metadata, monitor))
    }

    fn new(path: PathBuf, file: File, metadata: &Metadata, monitor: Option<Arc<Monitor>>) -> Self {
        Self {
            path,
            file,
            identity: FileIdentity::of(metadata),
            owner: metadata.uid(),
            system: OnceLock::new(),
            settling: Settling::default(),
            monitor,
        }
    }

    /// The same open file, as it is now.
    pub(crate) fn again(&self) -> Result<Self, LoadError> {
        let failed = |error| LoadError::io("stat", &self.path, error);
        let file = self.file.try_clone().map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let (path, monitor) = (self.path.clone(), self.monitor.clone());
        Ok(Self::new(path, file, &metadata, monitor))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// What the file was when it was opened.
    pub(crate) fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// User who owned the file when it was opened.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// What `stat` says it is; `None` on a file system where that proves nothing (INV-10).
    pub(crate) fn stat_key(&self, kind: ManifestKind) -> Option<IdentityKey> {
        let system = self.system();
        system.map(|system| IdentityKey {
            kind,
            by: IdentityBy::Stat {
                file: self.identity,
                system,
            },
        })
    }

    fn system(&self) -> Option<FileSystem> {
        let found = || FileSystem::of(&self.file, &self.identity);
        *self.system.get_or_init(found)
    }

    /// Fills `buffer` with the bytes at `offset` if they are in memory; `false` if they have to be read.
    pub(crate) fn read_cached(&self, buffer: &mut [u8], offset: u64) -> bool {
        let len = buffer.len();
        let mut parts = [IoSliceMut::new(buffer)];
        preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT) == Ok(len)
    }

    /// Has the kernel begin to read a part, and does not wait for it.
    pub(crate) fn read_ahead(&self, range: Range<u64>) {
        let len = NonZeroU64::new(range.end - range.start);
        let _unsupported = fadvise(&self.file, range.start, len, Advice::WillNeed);
    }

    /// Reads and checks the header of a safetensors file; also returns its bytes.
    pub(crate) fn header(&self) -> Result<(Header, Vec<u8>), Failure> {
        let settled = self.settle();
        let (header, raw) = Header::read(&self.file, self.identity.size, &self.path)?;
        if !settled {
            self.settling.note(0, &raw);
        }
        Ok((header, raw))
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        let settled = self.settle();
        self.read_exact(buffer, offset)?;
        if !settled {
            self.settling.note(offset, buffer);
        }
        Ok(())
    }

    fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        if let Some(monitor) = &self.monitor {
            if monitor.is_cancelled() {
                let error = std::io::Error::other("it is not wanted any more");
                return Err(LoadError::io("read", &self.path, error).into());
            }
            let len = buffer.len() as u64;
            monitor.read.fetch_add(len, Ordering::Relaxed);
        }
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                // The length was known when the file was opened, so it has been truncated.
                ErrorKind::UnexpectedEof => Failure::Changed,
                _ => LoadError::io("read", &self.path, error).into(),
            })
    }

    /// Fails if the file is not any more what it was when it was opened, or not what was read of it. Otherwise returns whether its
    /// identity may be bound (INV-10): not if it is too new.
    pub(crate) fn require_unchanged(&self) -> Result<bool, Failure> {
        // First: what is read again now must not change unseen afterwards.
        let settled = self.settle();
        let read_at = |buffer: &mut [u8], offset| self.read_exact(buffer, offset);
        if !self.settling.is_as_noted(read_at)? {
            return Err(Failure::Changed);
        }
        let metadata = self
            .file
            .metadata()
            .map_err(|error| LoadError::io("stat", &self.path, error))?;
        if FileIdentity::of(&metadata) == self.identity {
            Ok(settled)
        } else {
            Err(Failure::Changed)
        }
    }

    /// Whether every change from now on gives the file another ctime, and no write of before is still under way.
    fn settle(&self) -> bool {
        if self.settling.is_settled() {
            return true;
        }
        if !self.is_old() {
            return false;
        }
        // A write stamps the file when it begins and may copy for seconds. It holds the inode's lock
        // meanwhile, for which a look for data waits: on ext4, btrfs, f2fs and tmpfs, and through
        // overlayfs. xfs takes that lock for every read. Others answer at once, which is no worse.
        let _nothing_to_learn = lseek(&self.file, 0, Whence::SeekData);
        self.settling.settle();
        true
    }

    /// Whether the file's ctime is older than the clock's granularity: every change from now on gives it another one.
    pub(crate) fn is_old(&self) -> bool {
        let (seconds, nanoseconds) = self.identity.ctime;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return false;
        };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        // A ctime in the future has no age: the clock was set back.
        let age = SystemTime::now().duration_since(changed);
        age.is_ok_and(|age| age >= self.granularity())
    }

    /// How far apart two changes must be to give different ctimes (LAYOUT.md 8).
    fn granularity(&self) -> Duration {
        let fine = self.system().is_some();
        Duration::from_millis(if fine { 100 } else { 2_000 })
    }
}
