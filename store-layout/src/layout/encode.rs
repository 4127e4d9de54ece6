//! Writing a table.

use super::{HEADER_LEN, Layout, MAGIC, NONE, OBJECT_LEN, SOURCE_LEN};
use crate::codec::Writer;

impl Layout {
    /// The one encoding of this layout. Meaningful for a layout that [`Layout::check`] accepts.
    pub fn encode(&self) -> Vec<u8> {
        let len = HEADER_LEN + self.sources.len() * SOURCE_LEN + self.objects.len() * OBJECT_LEN;
        let mut writer = Writer::with_preamble(MAGIC, len);
        writer.u32(self.sources.len() as u32);
        writer.u32(self.objects.len() as u32);
        writer.u32(self.tensors.len() as u32);
        writer.u32(self.attributes.len() as u32);
        for source in &self.sources {
            writer.put(&source.0.0);
        }
        for object in &self.objects {
            writer.put(&object.id.0.0);
            writer.u64(object.len);
            writer.u32(object.crc);
        }
        for tensor in &self.tensors {
            writer.u32(tensor.name.len() as u32);
            writer.u16(tensor.dtype.code());
            writer.u16(tensor.shape.len() as u16);
            writer.u32(tensor.place.map_or(NONE, |place| place.object));
            writer.u32(tensor.alias.unwrap_or(NONE));
            writer.u64(tensor.place.map_or(0, |place| place.offset));
            for number in tensor.shape.iter().chain(&tensor.strides) {
                writer.u64(*number);
            }
            writer.put(tensor.name.as_bytes());
        }
        for (key, value) in &self.attributes {
            writer.u32(key.len() as u32);
            writer.u32(value.len() as u32);
            writer.put(key.as_bytes());
            writer.put(value);
        }
        writer.finish()
    }
}
