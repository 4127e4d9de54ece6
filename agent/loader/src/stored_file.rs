//! A model file as it lies in the store: its header, and its tensors in mapped objects.

use std::borrow::Cow;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tetris_store_layout::{Manifest, ManifestKind, ManifestTensor, Mapping};

use crate::error::LoadFailure;
use crate::model_bytes::ModelBytes;

/// Most bytes of a file hashed at once, between two reports of progress.
const HASHED_AT_ONCE: usize = 1 << 20;

/// A file whose objects are mapped.
#[derive(Debug, Clone, Copy)]
pub struct StoredFile<'a> {
    /// Name for messages.
    pub path: &'a Path,
    /// First bytes of a safetensors file, up to its tensors; empty for other files.
    pub header: &'a [u8],
    /// The manifest of the file.
    pub manifest: &'a Manifest,
    /// One for each object of the manifest, in its order.
    pub objects: &'a [Mapping],
}

impl<'a> StoredFile<'a> {
    /// The bytes of the file from `offset` on, as far as they lie together; `None` at its end.
    pub fn piece(&self, offset: u64) -> Option<&'a [u8]> {
        let piece = if self.manifest.kind == ManifestKind::File {
            self.objects.first()?.get(offset as usize..)
        } else if let Some(offset) = offset.checked_sub(self.manifest.data_start) {
            self.tensor(offset)
        } else {
            self.header.get(offset as usize..)
        };
        piece.filter(|piece| !piece.is_empty())
    }

    /// The bytes from `offset` on within a tensor; `offset` counts from the first tensor.
    fn tensor(&self, offset: u64) -> Option<&'a [u8]> {
        let end = |tensor: &ManifestTensor| tensor.source_offset + tensor.len;
        let tensors = &self.manifest.tensors;
        let index = tensors.partition_point(|tensor| end(tensor) <= offset);
        let tensor = tensors.get(index)?;
        let place = tensor.place?;
        let object = self.objects.get(place.object as usize)?;
        let begin = place.offset as usize;
        let bytes = object.get(begin..begin + tensor.len as usize)?;
        bytes.get((offset - tensor.source_offset) as usize..)
    }

    /// At most `len` bytes from `offset` on; fewer at the end of the file. They are copied only where they do not lie
    /// together.
    pub fn bytes(&self, offset: u64, len: usize) -> Cow<'a, [u8]> {
        let piece = self.piece(offset).unwrap_or_default();
        if let Some(bytes) = piece.get(..len) {
            return Cow::Borrowed(bytes);
        }
        let mut bytes = piece.to_vec();
        while let Some(piece) = self.piece(offset + bytes.len() as u64) {
            let missing = len - bytes.len();
            bytes.extend_from_slice(piece.get(..missing).unwrap_or(piece));
            if bytes.len() == len {
                break;
            }
        }
        Cow::Owned(bytes)
    }
}

impl StoredFile<'_> {
    /// SHA-256 of the file. `progress` receives the length of each part before it is hashed.
    ///
    /// # Errors
    /// The first one of `progress`.
    pub fn sha256<E>(&self, progress: impl Fn(u64) -> Result<(), E>) -> Result<[u8; 32], E> {
        let mut hasher = Sha256::new();
        self.read_through(|piece| {
            progress(piece.len() as u64)?;
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finalize().into())
    }

    /// Passes all bytes of the file to `take`, in order and at most 1 MiB at once.
    ///
    /// # Errors
    /// The first one of `take`.
    pub fn read_through<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut offset = 0;
        while let Some(piece) = self.piece(offset) {
            let piece = piece.get(..HASHED_AT_ONCE).unwrap_or(piece);
            take(piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

impl ModelBytes for StoredFile<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure> {
        let bytes = self.bytes(offset, buffer.len());
        if bytes.len() < buffer.len() {
            return Err(LoadFailure::Changed);
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}
