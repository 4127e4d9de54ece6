//! A model file that is being read: opened once, read by position, watched for changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc;
use nix::unistd::{Whence, lseek};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use tetris_store_layout::{FileIdentity, FileSystem, IdentityBy, IdentityKey, ManifestKind};

use crate::error::{LoadError, LoadFailure};
use crate::header::{Header, MAX_TENSORS};
use crate::monitor::ReadMonitor;
use crate::settling::Settling;

/// An open model file.
///
/// Never mapped: a mapping of a truncated file ends in SIGBUS (INV-9).
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    /// User who owns the file.
    owner: u32,
    /// Its file system, once asked for; none where `stat` does not identify the file.
    system: OnceLock<Option<FileSystem>>,
    settling: Settling,
    /// Counts the bytes read, and can end the reading.
    monitor: Option<Arc<ReadMonitor>>,
}

impl Source {
    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// [`LoadError::Io`] when it cannot be opened, [`LoadError::NotAFile`] when it is no regular file.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        // A FIFO would block an open for reading until someone writes.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| LoadError::io("open", path, error))?;
        Self::of_file(file, path, None)
    }

    /// Takes a file that is open for reading; `path` is for messages, and `monitor` watches the reading.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn of_file(
        file: File,
        path: &Path,
        monitor: Option<Arc<ReadMonitor>>,
    ) -> Result<Self, LoadError> {
        let metadata = file
            .metadata()
            .map_err(|error| LoadError::io("stat", path, error))?;
        if !metadata.is_file() {
            return Err(LoadError::NotAFile { path: path.into() });
        }
        Ok(Self::new(path.into(), file, &metadata, monitor))
    }

    fn new(
        path: PathBuf,
        file: File,
        metadata: &Metadata,
        monitor: Option<Arc<ReadMonitor>>,
    ) -> Self {
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

    /// The same open file, with its present identity.
    ///
    /// # Errors
    /// [`LoadError::Io`] when the descriptor cannot be duplicated or its file not be asked for.
    pub fn again(&self) -> Result<Self, LoadError> {
        let failed = |error| LoadError::io("stat", &self.path, error);
        let file = self.file.try_clone().map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let (path, monitor) = (self.path.clone(), self.monitor.clone());
        Ok(Self::new(path, file, &metadata, monitor))
    }

    /// The path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's identity when it was opened.
    pub fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// User who owned the file when it was opened.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The identity that `stat` gives; `None` on a file system where that proves nothing (INV-10).
    pub fn stat_key(&self, kind: ManifestKind) -> Option<IdentityKey> {
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
        let look = || FileSystem::of(&self.file, &self.identity);
        *self.system.get_or_init(look)
    }

    /// Fills `buffer` with the bytes at `offset` if they are in memory; false if they must be read.
    pub fn read_cached(&self, buffer: &mut [u8], offset: u64) -> bool {
        let len = buffer.len();
        let mut parts = [IoSliceMut::new(buffer)];
        preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT) == Ok(len)
    }

    /// Has the kernel begin to read a part, and does not wait for it.
    pub fn read_ahead(&self, range: Range<u64>) {
        let len = NonZeroU64::new(range.end - range.start);
        let _unsupported = fadvise(&self.file, range.start, len, Advice::WillNeed);
    }

    /// Reads and checks the header of a safetensors file; also returns its bytes.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn header(&self) -> Result<(Header, Vec<u8>), LoadFailure> {
        self.header_within(MAX_TENSORS)
    }

    /// As [`Source::header`], of at most `max_tensors`.
    ///
    /// # Errors
    /// As [`Source::header`].
    pub(crate) fn header_within(
        &self,
        max_tensors: usize,
    ) -> Result<(Header, Vec<u8>), LoadFailure> {
        let settled = self.settle();
        let (size, path) = (self.identity.size, &self.path);
        let (header, raw) = Header::read_within(&self.file, size, path, max_tensors)?;
        if !settled {
            self.settling.note(0, &raw);
        }
        Ok((header, raw))
    }

    /// Informs the file's monitor that an object of `bytes` was staged for it.
    pub(crate) fn note_staged(&self, bytes: u64) {
        if let Some(monitor) = &self.monitor {
            monitor.count_staged(bytes);
        }
    }

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`LoadFailure::Changed`] when the file has become too short, [`LoadError::Io`] otherwise.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure> {
        let settled = self.settle();
        self.read_exact(buffer, offset)?;
        if !settled {
            self.settling.note(offset, buffer);
        }
        Ok(())
    }

    fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure> {
        if let Some(monitor) = &self.monitor {
            if monitor.is_cancelled() {
                let error = std::io::Error::other("it is not wanted any more");
                return Err(LoadError::io("read", &self.path, error).into());
            }
            monitor.count(buffer.len() as u64);
        }
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                // The length was known when the file was opened, so it has been truncated.
                ErrorKind::UnexpectedEof => LoadFailure::Changed,
                _ => LoadError::io("read", &self.path, error).into(),
            })
    }

    /// Checks that the file is still the one that was opened and read. Returns true if its identity
    /// may be bound (INV-10): not if it is too new.
    ///
    /// # Errors
    /// [`LoadFailure::Changed`] when it is another, [`LoadError::Io`] when it cannot be read again.
    pub fn require_unchanged(&self) -> Result<bool, LoadFailure> {
        // First: what is read again now must not change unseen afterwards.
        let settled = self.settle();
        let read_at = |buffer: &mut [u8], offset| self.read_exact(buffer, offset);
        if !self.settling.is_as_noted(read_at)? {
            return Err(LoadFailure::Changed);
        }
        let metadata = self
            .file
            .metadata()
            .map_err(|error| LoadError::io("stat", &self.path, error))?;
        if FileIdentity::of(&metadata) == self.identity {
            Ok(settled)
        } else {
            Err(LoadFailure::Changed)
        }
    }

    /// Returns true if every change from now on gives the file another ctime, and no earlier write is
    /// still under way.
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

    /// Returns true if the file's ctime is older than the clock's granularity: every change from now on
    /// gives it another one.
    pub fn is_old(&self) -> bool {
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

    /// Least time between two changes that gives them different ctimes (LAYOUT.md 8).
    fn granularity(&self) -> Duration {
        let fine = self.system().is_some();
        Duration::from_millis(if fine { 100 } else { 2_000 })
    }
}
