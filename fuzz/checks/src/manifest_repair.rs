//! Makes damaged manifests good enough for the decoder to look past their header. Offsets as in
//! LAYOUT.md 3.2.

use tetris_store_layout::ObjectRef;

/// Bytes of the header, the last four of them its CRC-32.
const HEADER_LEN: usize = 128;
const OBJECT_LEN: u64 = 48;
const TENSOR_LEN: u64 = 72;
const METADATA_LEN: u64 = 8;

/// `bytes` with magic, version, total length, string length and CRC put right; too short input is
/// returned as it is.
///
/// A fuzzer finds a CRC-32 by chance once in four billion inputs, so without this nothing behind it
/// would be tried.
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let total = bytes.len() as u64;
    let Some((head, _)) = bytes.split_first_chunk_mut::<HEADER_LEN>() else {
        return bytes;
    };
    head[..8].copy_from_slice(b"TETRMANI");
    head[8..12].copy_from_slice(&1_u32.to_le_bytes());
    head[16..24].copy_from_slice(&total.to_le_bytes());
    let fixed = HEADER_LEN as u64
        + u64::from(u32_at(head, 24)) * OBJECT_LEN
        + u64::from(u32_at(head, 28)) * TENSOR_LEN
        + u64::from(u32_at(head, 32)) * METADATA_LEN;
    let dimensions = u64_at(head, 56).wrapping_mul(8);
    let strings = total.wrapping_sub(fixed).wrapping_sub(dimensions);
    head[64..72].copy_from_slice(&strings.to_le_bytes());
    head[36..40].fill(0);
    head[104..124].fill(0);
    let crc = ObjectRef::of(&head[..124]).crc;
    head[124..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn u32_at(head: &[u8; HEADER_LEN], at: usize) -> u32 {
    head[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(head: &[u8; HEADER_LEN], at: usize) -> u64 {
    head[at..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
