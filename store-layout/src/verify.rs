//! Checking that an object's bytes are what its name promises (INV-1).

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};

use crate::digest::ObjectId;
use crate::error::{IoError, StoreError};
use crate::folder::Folder;
use crate::hash::{SegmentHasher, combine, segment_count, segment_len};
use crate::object_file::open_object;
use crate::open_file::Opening;
use crate::store::{ObjectRef, Store};

/// Read at once: small enough to stay in the core's cache until it is hashed.
const BLOCK_BYTES: usize = 256 * 1024;

/// Depth of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyDepth {
    /// CRC-32 only, which finds any accidental damage to within one in 2^32.
    Crc,
    /// CRC-32 and BLAKE3-256.
    Full,
}

/// The damage of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The name belongs to something else than a regular file of the expected length.
    Shape {
        /// The thing found, in words.
        found: String,
    },
    /// The CRC-32 differs.
    Crc {
        /// The value computed.
        found: u32,
    },
    /// The BLAKE3-256 differs.
    Id {
        /// The value computed.
        found: ObjectId,
    },
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// The object is what its name promises.
    Sound,
    /// It is not.
    Damaged(Fault),
    /// There is no such object.
    Absent,
    /// A process holds a lease on it, so that it cannot be read now.
    Leased,
    /// The caller's pace ended the check.
    Stopped,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shape { found } => write!(f, "found {found}"),
            Self::Crc { found } => write!(f, "its CRC-32 is {found:08x}"),
            Self::Id { found } => write!(f, "its BLAKE3-256 is {found}"),
        }
    }
}

impl Store {
    /// Checks an object's bytes.
    pub fn verify(&self, object: &ObjectRef, depth: VerifyDepth) -> Result<Verified, StoreError> {
        self.verify_paced(object, depth, |_| ControlFlow::Continue(()))
    }

    /// Checks an object's bytes and informs `pace` after each piece how many were read, so that it can wait, or
    /// end the check.
    ///
    /// The object is not referenced meanwhile: a check never keeps it from being reclaimed, and its
    /// pages stay until the check has ended.
    pub fn verify_paced(
        &self,
        object: &ObjectRef,
        depth: VerifyDepth,
        mut pace: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Verified, StoreError> {
        let name = object.file_name();
        let damaged = |found: &str| {
            Verified::Damaged(Fault::Shape {
                found: found.to_owned(),
            })
        };
        let failed = |what, error: io::Error| {
            StoreError::from(IoError::new(what, self.path(Folder::Objects, &name), error))
        };
        let mut file = match open_object(self, &name, Opening::Read) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(Verified::Absent),
            Err(Errno::ELOOP) => return Ok(damaged("a symbolic link")),
            Err(Errno::ENXIO) => return Ok(damaged("a socket")),
            Err(Errno::EWOULDBLOCK) => return Ok(Verified::Leased),
            Err(error) => return Err(failed("open", error.into())),
        };
        let stat = fstat(&file).map_err(|error| failed("stat", error.into()))?;
        if stat.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
            return Ok(damaged("something that is not a file"));
        }
        if stat.st_size as u64 != object.len {
            return Ok(damaged(&format!("a file of {} bytes", stat.st_size)));
        }
        let fault = match depth {
            VerifyDepth::Crc => crc_fault(&mut file, object, &mut pace),
            VerifyDepth::Full => full_fault(&mut file, object, &mut pace),
        };
        match fault {
            Ok(Some(fault)) => Ok(Verified::Damaged(fault)),
            Ok(None) => Ok(Verified::Sound),
            Err(Interrupted::Stopped) => Ok(Verified::Stopped),
            Err(Interrupted::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(damaged("a file that was cut short"))
            }
            Err(Interrupted::Io(error)) => Err(failed("read", error)),
        }
    }
}

/// The reason that a check has no result.
enum Interrupted {
    Stopped,
    Io(io::Error),
}

fn crc_fault(
    file: &mut File,
    object: &ObjectRef,
    pace: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Fault>, Interrupted> {
    let mut hasher = crc32fast::Hasher::new();
    read(file, object.len, pace, |bytes| hasher.update(bytes))?;
    let found = hasher.finalize();
    Ok((found != object.crc).then_some(Fault::Crc { found }))
}

fn full_fault(
    file: &mut File,
    object: &ObjectRef,
    pace: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Fault>, Interrupted> {
    let mut digests = Vec::new();
    for index in 0..segment_count(object.len) {
        let mut hasher = SegmentHasher::new(object.len, index);
        let len = segment_len(object.len, index);
        read(file, len, pace, |bytes| hasher.update(bytes))?;
        digests.push(hasher.finish());
    }
    Ok(match combine(&digests) {
        Some((id, _)) if id != object.id => Some(Fault::Id { found: id }),
        Some((_, crc)) if crc != object.crc => Some(Fault::Crc { found: crc }),
        _ => None,
    })
}

/// Reads `len` bytes piece by piece.
fn read(
    file: &mut File,
    len: u64,
    pace: &mut impl FnMut(u64) -> ControlFlow<()>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Interrupted> {
    let mut block = vec![0; BLOCK_BYTES.min(usize::try_from(len).unwrap_or(BLOCK_BYTES))];
    let mut left = len;
    while left > 0 {
        let step = (block.len() as u64).min(left);
        let Some(piece) = block.get_mut(..step as usize) else {
            break;
        };
        file.read_exact(piece).map_err(Interrupted::Io)?;
        take(piece);
        left -= step;
        if pace(step).is_break() {
            return Err(Interrupted::Stopped);
        }
    }
    Ok(())
}
