//! Files of a disk, read past the page cache where the file system can do that.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Alignment of direct reads, in bytes: at least that of any usual disk.
const ALIGN: usize = 4096;

/// A file of a disk.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: File,
    /// Aligned memory of earlier reads; `None` where reads go through the page cache.
    buffers: Option<Mutex<Vec<Vec<u8>>>>,
}

impl DiskFile {
    /// Opens a file for reading.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_DIRECT.bits())
            .open(path);
        match direct {
            // Of a file system without direct reads.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(Self {
                file: File::open(path)?,
                buffers: None,
            }),
            opened => Ok(Self {
                file: opened?,
                buffers: Some(Mutex::default()),
            }),
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads `buffer` from `offset` on, a multiple of [`ALIGN`].
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(buffers) = &self.buffers else {
            return self.file.read_exact_at(buffer, offset);
        };
        let locked = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let len = buffer.len().next_multiple_of(ALIGN);
        let mut memory = locked().pop().unwrap_or_default();
        memory.resize(memory.len().max(len + ALIGN), 0);
        let begin = memory.as_ptr().align_offset(ALIGN);
        let aligned = memory.get_mut(begin..begin + len).unwrap_or_default();
        let mut read = 0;
        while read < buffer.len() {
            // Only the end of the file is no multiple of the alignment.
            let rest = aligned.get_mut(read..).unwrap_or_default();
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = aligned.get(..buffer.len()).unwrap_or_default();
        buffer.copy_from_slice(bytes);
        locked().push(memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_file_on_a_disk_and_in_memory() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            let path = tempfile::NamedTempFile::new_in(&directory)
                .unwrap()
                .into_temp_path();
            let bytes: Vec<u8> = (0..100_003_u32).map(|n| (n % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let file = DiskFile::open(&path).unwrap();
            assert_eq!(file.len().unwrap(), bytes.len() as u64);
            for (offset, len) in [(0, 1), (4096, 8192), (0, 100_003), (98_304, 1699)] {
                let mut buffer = vec![0; len];
                file.read_exact_at(&mut buffer, offset as u64).unwrap();
                assert_eq!(
                    buffer,
                    bytes[offset..offset + len],
                    "{directory:?} {offset}"
                );
            }
            let mut beyond = vec![0; 1700];
            let error = file.read_exact_at(&mut beyond, 98_304).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
