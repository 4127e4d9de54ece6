//! Writing a manifest.

use super::{
    HEADER_LEN, MAGIC, METADATA_LEN, Manifest, ManifestKind, NO_OBJECT, OBJECT_LEN, TENSOR_LEN,
};
use crate::codec::Writer;

impl ManifestKind {
    pub(super) const fn code(self) -> u32 {
        match self {
            Self::Safetensors => 1,
            Self::File => 2,
        }
    }
}

impl Manifest {
    /// The one encoding of this manifest (INV-7).
    ///
    /// Meaningful for a manifest that [`Manifest::check`] accepts; counts and lengths beyond the
    /// caps do not survive.
    pub fn encode(&self) -> Vec<u8> {
        let dims: usize = self.tensors.iter().map(|tensor| tensor.shape.len()).sum();
        let names: usize = self.tensors.iter().map(|tensor| tensor.name.len()).sum();
        let pairs: usize = self.metadata.iter().map(|(k, v)| k.len() + v.len()).sum();
        let total = HEADER_LEN
            + self.objects.len() * OBJECT_LEN
            + self.tensors.len() * TENSOR_LEN
            + self.metadata.len() * METADATA_LEN
            + dims * size_of::<u64>()
            + names
            + pairs;
        let mut writer = Writer::with_preamble(MAGIC, total);
        writer.u32(self.kind.code());
        writer.u64(total as u64);
        writer.u32(self.objects.len() as u32);
        writer.u32(self.tensors.len() as u32);
        writer.u32(self.metadata.len() as u32);
        writer.zeros(4);
        writer.u64(self.source_size);
        writer.u64(self.data_start);
        writer.u64(dims as u64);
        writer.u64((names + pairs) as u64);
        writer.put(&self.header_digest.0);
        writer.zeros(20);
        writer.crc();
        debug_assert_eq!(writer.len(), HEADER_LEN);
        self.encode_tables(&mut writer);
        for tensor in &self.tensors {
            for &dim in &tensor.shape {
                writer.u64(dim);
            }
        }
        for tensor in &self.tensors {
            writer.put(tensor.name.as_bytes());
        }
        for (key, value) in &self.metadata {
            writer.put(key.as_bytes());
            writer.put(value.as_bytes());
        }
        debug_assert_eq!(writer.len(), total);
        writer.finish()
    }

    fn encode_tables(&self, writer: &mut Writer) {
        for entry in &self.objects {
            writer.put(&entry.object.id.0.0);
            writer.u64(entry.object.len);
            writer.u32(entry.object.crc);
            writer.put(&[entry.kind.code(), 0, 0, 0]);
        }
        for tensor in &self.tensors {
            writer.put(&tensor.id.0.0);
            writer.u64(tensor.source_offset);
            writer.u64(tensor.len);
            writer.u64(tensor.place.map_or(0, |place| place.offset));
            writer.u32(tensor.place.map_or(NO_OBJECT, |place| place.object));
            writer.u32(tensor.name.len() as u32);
            writer.u16(tensor.dtype.code());
            writer.u16(tensor.shape.len() as u16);
            writer.zeros(4);
        }
        for (key, value) in &self.metadata {
            writer.u32(key.len() as u32);
            writer.u32(value.len() as u32);
        }
    }
}
