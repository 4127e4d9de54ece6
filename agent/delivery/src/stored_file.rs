//! A model file as it lies in the store: its header, and its tensors in mapped objects.

use std::path::{Path, PathBuf};

use tetris_loader::{LoadFailure, ModelBytes};
use tetris_store_layout::{Manifest, ManifestTensor, Mapping};

/// A safetensors file whose objects are mapped.
pub(crate) struct StoredFile<'a> {
    pub(crate) path: PathBuf,
    /// The first bytes of the file, up to its tensors.
    pub(crate) header: &'a [u8],
    pub(crate) manifest: &'a Manifest,
    /// One for each object of the manifest, in its order.
    pub(crate) objects: &'a [Mapping],
}

impl StoredFile<'_> {
    /// The bytes of the file from `offset` on, as far as they lie together.
    fn piece(&self, offset: u64) -> Option<&[u8]> {
        let Some(offset) = offset.checked_sub(self.manifest.data_start) else {
            return self.header.get(offset as usize..);
        };
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
}

impl ModelBytes for StoredFile<'_> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), LoadFailure> {
        while !buffer.is_empty() {
            let piece = self.piece(offset).filter(|piece| !piece.is_empty());
            let piece = piece.ok_or(LoadFailure::Changed)?;
            let len = piece.len().min(buffer.len());
            let (now, later) = buffer.split_at_mut_checked(len).unwrap_or_default();
            now.copy_from_slice(piece.get(..len).unwrap_or_default());
            offset += len as u64;
            buffer = later;
        }
        Ok(())
    }
}
