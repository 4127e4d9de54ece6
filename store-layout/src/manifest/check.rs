//! Conditions between the fields of a manifest.

use std::collections::HashSet;

use super::{
    MAX_METADATA, MAX_OBJECTS, MAX_TENSORS, Manifest, ManifestKind, ManifestTensor, ObjectKind,
};
use crate::digest::Digest;
use crate::error::DecodeError;

impl Manifest {
    /// Checks everything that LAYOUT.md 3.2 demands of the entries.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.check_counts()?;
        self.check_sources()?;
        for tensor in &self.tensors {
            self.check_place(tensor)?;
            check_length(tensor)?;
        }
        let mut names = HashSet::with_capacity(self.tensors.len());
        for tensor in &self.tensors {
            if !names.insert(tensor.name.as_str()) {
                return Err(DecodeError::field(
                    "tensor name",
                    "distinct",
                    tensor.name.escape_debug(),
                ));
            }
        }
        let pairs = self.metadata.iter().zip(self.metadata.iter().skip(1));
        for ((one, _), (next, _)) in pairs {
            if one >= next {
                return Err(DecodeError::field(
                    "metadata keys",
                    "ascending",
                    next.escape_debug(),
                ));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), DecodeError> {
        for (field, found, limit) in [
            ("object count", self.objects.len(), MAX_OBJECTS),
            ("tensor count", self.tensors.len(), MAX_TENSORS),
            ("metadata count", self.metadata.len(), MAX_METADATA),
        ] {
            if found > limit {
                return Err(DecodeError::field(field, format!("at most {limit}"), found));
            }
        }
        if self.kind == ManifestKind::File {
            return self.check_whole_file();
        }
        Ok(())
    }

    fn check_whole_file(&self) -> Result<(), DecodeError> {
        let is_one_file = match self.objects.as_slice() {
            [one] => one.kind == ObjectKind::File && one.object.len == self.source_size,
            _ => false,
        };
        let bare = self.tensors.is_empty() && self.metadata.is_empty() && self.data_start == 0;
        if is_one_file && bare && self.header_digest == Digest::of(b"") {
            return Ok(());
        }
        let found = format!(
            "{} objects of {} bytes, {} tensors, data start {}",
            self.objects.len(),
            self.object_bytes(),
            self.tensors.len(),
            self.data_start
        );
        let expected = format!(
            "one file object of {} bytes and no header",
            self.source_size
        );
        Err(DecodeError::field("whole file", expected, found))
    }

    /// Tensors cover the file's data without gap or overlap, in order.
    fn check_sources(&self) -> Result<(), DecodeError> {
        if self.kind == ManifestKind::File {
            return Ok(());
        }
        let mut at = 0u64;
        for tensor in &self.tensors {
            if tensor.source_offset != at {
                return Err(DecodeError::field(
                    "source offset",
                    at,
                    tensor.source_offset,
                ));
            }
            at = at
                .checked_add(tensor.len)
                .ok_or_else(|| DecodeError::field("source end", "below 2^64", "an overflow"))?;
        }
        if self.data_start.checked_add(at) == Some(self.source_size) {
            Ok(())
        } else {
            let found = format!("{} + {at}", self.data_start);
            Err(DecodeError::field("source size", self.source_size, found))
        }
    }

    fn check_place(&self, tensor: &ManifestTensor) -> Result<(), DecodeError> {
        let Some(place) = tensor.place else {
            return if tensor.len == 0 {
                Ok(())
            } else {
                Err(DecodeError::field("object of a tensor", "an index", "none"))
            };
        };
        let object = self
            .objects
            .get(place.object as usize)
            .ok_or_else(|| DecodeError::field("object index", self.objects.len(), place.object))?;
        let end = place.offset.checked_add(tensor.len);
        if tensor.len > 0 && end.is_some_and(|end| end <= object.object.len) {
            Ok(())
        } else {
            let found = format!("{} bytes at {}", tensor.len, place.offset);
            let expected = format!("inside an object of {} bytes", object.object.len);
            Err(DecodeError::field("place of a tensor", expected, found))
        }
    }
}

fn check_length(tensor: &ManifestTensor) -> Result<(), DecodeError> {
    match tensor.dtype.tensor_bytes(&tensor.shape) {
        Some(bytes) if bytes == tensor.len => Ok(()),
        Some(bytes) => Err(DecodeError::field("tensor length", bytes, tensor.len)),
        None => Err(DecodeError::field(
            "dimensions",
            "a whole number of bytes below 2^64",
            format!("{:?}", tensor.shape),
        )),
    }
}
