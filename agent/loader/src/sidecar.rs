//! The sidecar beside a model: its manifest, and what it is valid for (LAYOUT.md 3.5).

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tetris_store_layout::{DecodeError, Digest, FORMAT_VERSION, Manifest, ManifestKind};

use crate::error::{LoadError, LoadFailure};
use crate::header::{LENGTH_FIELD_LEN, MAX_HEADER_LEN};
use crate::model_bytes::ModelBytes;
use crate::source::Source;

const MAGIC: &[u8; 8] = b"TETRSIDE";
/// Everything before the manifest.
const HEAD_LEN: usize = 8 + 4 + 4 + 8 + 8 + 4 + 4 + 32 + 32 + 8;
/// The longest sidecar in bytes: a manifest as in the store, and the rest.
const MAX_LEN: u64 = 400_001_000;
const BLOCKS: u64 = 64;
const BLOCK_LEN: u64 = 4096;

/// Path of the sidecar of the model file `path`.
pub fn path_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".tetris");
    name.into()
}

/// Writes the sidecar of the model file `path`, whose manifest is `manifest`, and returns its path.
///
/// Written under another name and renamed, so that it is never seen half.
///
/// # Errors
/// When the file cannot be read, is not the manifest's, or its directory cannot be written.
pub fn write(path: &Path, manifest: &Manifest) -> Result<PathBuf, LoadError> {
    let target = path_of(path);
    let source = Source::open(path)?;
    let changed = || LoadError::Changed {
        path: path.to_owned(),
        attempts: 1,
    };
    let bytes = encode(&source, manifest).map_err(|failure| match failure {
        LoadFailure::Changed => changed(),
        LoadFailure::Load(error) => error,
    })?;
    if manifest.source_size != source.identity().size {
        return Err(changed());
    }
    let mut partial = OsString::from(&target);
    partial.push(format!(".{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| std::fs::rename(&partial, &target));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&partial);
        LoadError::io("write", &target, error)
    })?;
    Ok(target)
}

/// The sidecar beside a model file.
#[derive(Debug)]
#[non_exhaustive]
pub enum SidecarState {
    /// There is none, or none that can be read.
    Absent,
    /// It is ignored: neither the model's owner nor root owns it.
    Untrusted {
        /// User who owns the model.
        owner: u32,
        /// User who owns the sidecar.
        writer: u32,
    },
    /// It is of another version of the file.
    Stale,
    /// It is damaged, or of another format.
    Damaged(DecodeError),
    /// It is valid for the file, and names this manifest.
    Valid(Manifest),
}

impl SidecarState {
    /// Name of the state.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Untrusted { .. } => "untrusted",
            Self::Stale => "stale",
            Self::Damaged(_) => "damaged",
            Self::Valid(_) => "valid",
        }
    }
}

/// The manifest in the sidecar of `source`, if there is one and it is valid for the file.
///
/// # Errors
/// As [`state`].
pub fn of(source: &Source) -> Result<Option<Manifest>, LoadFailure> {
    let path = path_of(source.path());
    match state(source)? {
        SidecarState::Valid(manifest) => return Ok(Some(manifest)),
        SidecarState::Absent => {}
        SidecarState::Untrusted { owner, writer } => {
            tracing::warn!(
                path = %path.display(),
                "sidecar ignored: expected the model's owner, user {owner}, or root to own it, found user {writer}; remove it"
            );
        }
        SidecarState::Stale => {
            tracing::info!(path = %path.display(), "sidecar is of another version of the file");
        }
        SidecarState::Damaged(error) => {
            tracing::warn!(path = %path.display(), %error, "sidecar ignored");
        }
    }
    Ok(None)
}

/// Looks at the sidecar of `source`.
///
/// # Errors
/// When the model file changes or cannot be read.
pub fn state(source: &Source) -> Result<SidecarState, LoadFailure> {
    // A link may lead to another's file; a FIFO would block until someone writes.
    let opened = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path_of(source.path()));
    let Ok(file) = opened else {
        return Ok(SidecarState::Absent);
    };
    let Some(metadata) = file.metadata().ok().filter(Metadata::is_file) else {
        return Ok(SidecarState::Absent);
    };
    let (owner, writer) = (source.owner(), metadata.uid());
    if !may_speak_for(writer, owner) {
        return Ok(SidecarState::Untrusted { owner, writer });
    }
    let mut bytes = Vec::new();
    if file.take(MAX_LEN).read_to_end(&mut bytes).is_err() {
        return Ok(SidecarState::Absent);
    }
    Ok(match decode(&bytes) {
        Ok(sidecar) if sidecar.is_valid_for(source)? => SidecarState::Valid(sidecar.manifest),
        Ok(_) => SidecarState::Stale,
        Err(error) => SidecarState::Damaged(error),
    })
}

/// Returns true if a sidecar by `writer` counts for a file of `owner` (LAYOUT.md 3.5).
fn may_speak_for(writer: u32, owner: u32) -> bool {
    /// In a user namespace, the number of all users who have none there.
    const NOBODY: u32 = 65534;
    writer == 0 || (writer == owner && writer != NOBODY)
}

/// A sidecar that was read, valid in itself.
#[derive(Debug)]
pub struct Sidecar {
    size: u64,
    mtime: (i64, u32),
    header_digest: Digest,
    sample: Digest,
    manifest: Manifest,
}

impl Sidecar {
    fn is_valid_for(&self, source: &Source) -> Result<bool, LoadFailure> {
        let identity = source.identity();
        let mtime = (self.mtime.0, i64::from(self.mtime.1));
        if self.size != identity.size || mtime != identity.mtime {
            return Ok(false);
        }
        self.agrees(source)
    }

    /// Reads a sidecar from its bytes.
    ///
    /// # Errors
    /// When they are damaged, or of another format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }

    /// Length of the model file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ranges of the model file that [`Sidecar::agrees`] reads, the header's first.
    pub fn sample_ranges(&self) -> Vec<Range<u64>> {
        let header = 0..self.manifest.data_start.min(self.size);
        let sample = sample_places(self.size, &self.header_digest);
        let sample = sample.into_iter().map(|(at, len)| at..at + len);
        std::iter::once(header).chain(sample).collect()
    }

    /// Returns true if a file of [`Sidecar::size`] bytes has the sidecar's header and sample.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn agrees(&self, file: &dyn ModelBytes) -> Result<bool, LoadFailure> {
        let header = header_digest(file, self.manifest.data_start.min(self.size))?;
        let stated = [self.header_digest, self.manifest.header_digest];
        Ok(stated == [header; 2] && self.sample == sample_digest(file, self.size, &header)?)
    }

    /// The manifest of the file, by the word of the sidecar.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The same, for itself.
    pub fn into_manifest(self) -> Manifest {
        self.manifest
    }
}

/// Digest of the first `len` bytes.
fn header_digest(file: &dyn ModelBytes, len: u64) -> Result<Digest, LoadFailure> {
    let mut header = vec![0; len as usize];
    file.read_at(&mut header, 0)?;
    Ok(Digest::of(&header))
}

/// Digest of 64 blocks, at places that follow from the header and the length.
fn sample_digest(file: &dyn ModelBytes, size: u64, header: &Digest) -> Result<Digest, LoadFailure> {
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; BLOCK_LEN as usize];
    for (offset, len) in sample_places(size, header) {
        let block = block.get_mut(..len as usize).unwrap_or_default();
        file.read_at(block, offset)?;
        hasher.update(block);
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// Offset and length of the blocks that are sampled.
fn sample_places(size: u64, header: &Digest) -> Vec<(u64, u64)> {
    if size <= BLOCKS * BLOCK_LEN {
        let starts = (0..size).step_by(BLOCK_LEN as usize);
        return starts.map(|at| (at, BLOCK_LEN.min(size - at))).collect();
    }
    let mut seed = blake3::Hasher::new();
    seed.update(&header.0);
    seed.update(&size.to_le_bytes());
    let mut numbers = seed.finalize_xof();
    let last = size - BLOCK_LEN;
    let stride = last / (BLOCKS - 1);
    let place = |index: u64| {
        let mut number = [0; 8];
        numbers.fill(&mut number);
        // 128 bits: the product of an index and a file's length may exceed 64.
        let start = (u128::from(index) * u128::from(last) / u128::from(BLOCKS - 1)) as u64;
        let back = match index {
            0 => 0,
            _ if index == BLOCKS - 1 => 0,
            _ => u64::from_le_bytes(number) % stride,
        };
        (start - back, BLOCK_LEN)
    };
    (0..BLOCKS).map(place).collect()
}

fn encode(source: &Source, manifest: &Manifest) -> Result<Vec<u8>, LoadFailure> {
    let identity = source.identity();
    encode_of(source, identity.size, identity.mtime, manifest)
}

/// A sidecar of a file of `size` bytes whose manifest is `manifest`. `mtime` is the time of the file's last change,
/// in seconds and nanoseconds; loads of a file with another time take no notice of the sidecar.
///
/// # Errors
/// When the file cannot be read.
pub fn encode_of(
    file: &dyn ModelBytes,
    size: u64,
    mtime: (i64, i64),
    manifest: &Manifest,
) -> Result<Vec<u8>, LoadFailure> {
    let header = header_digest(file, manifest.data_start.min(size))?;
    let encoded = manifest.encode();
    let mut bytes = Vec::with_capacity(HEAD_LEN + encoded.len() + 32);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(size.to_le_bytes());
    bytes.extend(mtime.0.to_le_bytes());
    bytes.extend((mtime.1 as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(header.0);
    bytes.extend(sample_digest(file, size, &header)?.0);
    bytes.extend((encoded.len() as u64).to_le_bytes());
    bytes.extend(encoded);
    bytes.extend(Digest::of(&bytes).0);
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<Sidecar, DecodeError> {
    let short = |expected| DecodeError::Short {
        field: "sidecar",
        expected,
        found: bytes.len() as u64,
    };
    let least = HEAD_LEN as u64 + 32;
    let (body, stated) = bytes.split_last_chunk::<32>().ok_or(short(least))?;
    let (head, manifest) = body.split_at_checked(HEAD_LEN).ok_or(short(least))?;
    let mut head = head;
    if take::<8>(&mut head) != *MAGIC {
        return Err(DecodeError::Magic {
            expected: MAGIC.escape_ascii().to_string(),
            found: bytes
                .get(..8)
                .unwrap_or_default()
                .escape_ascii()
                .to_string(),
        });
    }
    let version = u32::from_le_bytes(take(&mut head));
    if version != FORMAT_VERSION {
        return Err(DecodeError::Version { found: version });
    }
    let digest = Digest::of(body);
    if digest.0 != *stated {
        return Err(DecodeError::Checksum {
            field: "sidecar",
            expected: Digest(*stated).to_string(),
            found: digest.to_string(),
        });
    }
    let _reserved = take::<4>(&mut head);
    let size = u64::from_le_bytes(take(&mut head));
    let seconds = i64::from_le_bytes(take(&mut head));
    let nanoseconds = u32::from_le_bytes(take(&mut head));
    let _reserved = take::<4>(&mut head);
    let header_digest = Digest(take(&mut head));
    let sample = Digest(take(&mut head));
    let stated_len = u64::from_le_bytes(take(&mut head));
    if stated_len != manifest.len() as u64 {
        return Err(short(least.saturating_add(stated_len)));
    }
    let manifest = Manifest::decode(manifest)?;
    if manifest.kind != ManifestKind::Safetensors || manifest.source_size != size {
        return Err(DecodeError::Field {
            field: "manifest of a sidecar",
            expected: format!("a safetensors file of {size} bytes"),
            found: format!("{:?} of {} bytes", manifest.kind, manifest.source_size),
        });
    }
    // Its readers hold the header in memory.
    let longest = LENGTH_FIELD_LEN + MAX_HEADER_LEN;
    if manifest.data_start > longest {
        return Err(DecodeError::Field {
            field: "header of a sidecar's file",
            expected: format!("at most {longest} bytes"),
            found: manifest.data_start.to_string(),
        });
    }
    Ok(Sidecar {
        size,
        mtime: (seconds, nanoseconds),
        header_digest,
        sample,
        manifest,
    })
}

/// The next `N` bytes of a head whose length has been checked.
fn take<const N: usize>(head: &mut &[u8]) -> [u8; N] {
    match head.split_first_chunk::<N>() {
        Some((field, rest)) => {
            *head = rest;
            *field
        }
        None => [0; N],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_the_ends_and_stay_inside() {
        let header = Digest([1; 32]);
        for size in [
            0,
            1,
            4096,
            262_144,
            262_145,
            1 << 20,
            (1 << 40) + 17,
            u64::MAX,
        ] {
            let places = sample_places(size, &header);
            assert!(places.len() <= BLOCKS as usize);
            let inside =
                |&(at, len): &(u64, u64)| at.checked_add(len).is_some_and(|end| end <= size);
            assert!(places.iter().all(inside), "{size}");
            if size > 0 {
                assert_eq!(places.first().unwrap().0, 0);
                let (at, len) = *places.last().unwrap();
                assert_eq!(at + len, size);
            }
        }
    }

    #[test]
    fn only_the_owner_and_root_speak_for_a_file() {
        for (writer, owner, counts) in [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1000, 0, false),
            (1000, 1001, false),
            (65534, 65534, false),
            (0, 65534, true),
        ] {
            assert_eq!(may_speak_for(writer, owner), counts, "{writer} {owner}");
        }
    }

    /// A file of zeros.
    struct Zeros;

    impl ModelBytes for Zeros {
        fn path(&self) -> &Path {
            Path::new("zeros")
        }

        fn read_at(&self, buffer: &mut [u8], _: u64) -> Result<(), LoadFailure> {
            buffer.fill(0);
            Ok(())
        }
    }

    #[test]
    fn a_sidecar_does_not_make_its_reader_hold_a_whole_file() {
        for (data_start, is_taken) in [(1000, true), (LENGTH_FIELD_LEN + MAX_HEADER_LEN + 1, false)]
        {
            let manifest = Manifest {
                kind: ManifestKind::Safetensors,
                source_size: data_start,
                data_start,
                header_digest: Digest([0; 32]),
                metadata: Vec::new(),
                objects: Vec::new(),
                tensors: Vec::new(),
            };
            let bytes = encode_of(&Zeros, data_start, (0, 0), &manifest).unwrap();
            assert_eq!(decode(&bytes).is_ok(), is_taken, "{data_start}");
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_panic() {
        for len in 0..HEAD_LEN + 40 {
            assert!(decode(&vec![0x54; len]).is_err());
        }
    }
}
