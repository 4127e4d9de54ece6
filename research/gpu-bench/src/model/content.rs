//! Content of generated tensors.

/// Fills `buffer` with bytes that follow from the tensor's number and the offset. Read as BF16 or
/// as F32, each element has a magnitude of 0.125 to 0.5, so computations stay finite. Lengths are
/// multiples of 8.
pub(super) fn fill(buffer: &mut [u8], tensor: u64, offset: u64) {
    for (at, word) in buffer.chunks_mut(8).enumerate() {
        let value = mix(tensor << 40 ^ (offset / 8 + at as u64));
        let value = value & 0x80ff_80ff_80ff_80ff | 0x3e00_3e00_3e00_3e00;
        word.copy_from_slice(value.to_le_bytes().get(..word.len()).unwrap_or_default());
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014): a different result for each input.
fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_small_numbers_and_tensors_differ() {
        let (mut one, mut other) = ([0; 4096], [0; 4096]);
        fill(&mut one, 1, 0);
        fill(&mut other, 2, 0);
        assert_ne!(one, other);
        for four in one.chunks(4) {
            let value = f32::from_le_bytes(four.try_into().unwrap()).abs();
            assert!((0.125..=0.5).contains(&value), "{value}");
        }
        for two in one.chunks(2) {
            let value = f32::from_le_bytes([0, 0, two[0], two[1]]).abs();
            assert!((0.125..=0.5).contains(&value), "{value}");
        }
    }

    #[test]
    fn a_part_is_what_the_whole_has_there() {
        let (mut whole, mut part) = ([0; 64], [0; 32]);
        fill(&mut whole, 7, 800);
        fill(&mut part, 7, 816);
        assert_eq!(whole[16..48], part);
    }
}
