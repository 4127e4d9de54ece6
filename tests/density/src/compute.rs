//! The work of one simulated inference: a matrix-vector product over every tensor, in place.
//!
//! It reads the bytes in place, at any alignment. The order of the additions is fixed, so the
//! result is the same to the last bit for every loading method.

use std::hint::black_box;

/// Distance of reads in the touch pass, in bytes: the smallest page.
const PAGE: usize = 4096;
/// Number of independent sums per dot product: enough to fill the vector registers of common
/// processors.
const LANES: usize = 32;
/// Length of the input vector; longer rows repeat it from the start.
const INPUT: usize = 4096;

/// Storage format of a tensor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of a single-precision number.
    Bf16,
    /// Signed bytes, as in quantized weights.
    I8,
    /// Any other type, read byte by byte.
    Bytes,
}

impl Element {
    /// Returns the format for a type name of safetensors.
    pub fn from_name(name: &str) -> Self {
        match name {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "I8" => Self::I8,
            _ => Self::Bytes,
        }
    }
}

/// A tensor as a loading method provides it.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Index of its file among the instance's files.
    pub file: u32,
    /// Its name in that file.
    pub name: &'a str,
    /// Storage format of its numbers.
    pub element: Element,
    /// Dimensions, outermost first.
    pub shape: &'a [u64],
    /// Its bytes, little-endian, at any alignment.
    pub bytes: &'a [u8],
}

/// Reads one byte of every page of the tensor.
pub fn touch(bytes: &[u8]) {
    // A plain loop: iterator adaptors took longer than the measured page faults.
    let mut sum = bytes.last().copied().unwrap_or_default();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        sum = sum.wrapping_add(*byte);
        at += PAGE;
    }
    black_box(sum);
}

/// A pass over a model: add every tensor, then read the checksum.
pub struct Pass {
    input: Vec<f32>,
    checksum: u64,
}

impl Default for Pass {
    fn default() -> Self {
        // Small exact fractions of both signs, so that sums stay in range on any weights.
        let input = (0..INPUT)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
            .collect();
        Self { input, checksum: 0 }
    }
}

impl Pass {
    /// Multiplies the tensor with the input vector and adds the results to the checksum.
    ///
    /// The first dimension counts rows; the others together are the columns, as in a fully
    /// connected layer or an unrolled convolution. The order of tensors does not matter.
    pub fn add(&mut self, tensor: &Tensor<'_>) {
        let result = match tensor.element {
            Element::F32 => self.rows::<4>(tensor, |b| f32::from_bits(u32::from_le_bytes(b))),
            Element::F16 => self.rows::<2>(tensor, |b| widen_f16(u16::from_le_bytes(b))),
            Element::Bf16 => self.rows::<2>(tensor, |b| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
            }),
            Element::I8 => self.rows::<1>(tensor, |b| f32::from(b[0].cast_signed())),
            Element::Bytes => self.rows::<1>(tensor, |b| f32::from(b[0])),
        };
        let place =
            name_hash(tensor.name) ^ u64::from(tensor.file).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.checksum = self.checksum.wrapping_add(mix(result ^ place));
    }

    /// Checksum over all tensors so far.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    fn rows<const WIDTH: usize>(
        &self,
        tensor: &Tensor<'_>,
        widen: impl Fn([u8; WIDTH]) -> f32 + Copy,
    ) -> u64 {
        let (elements, _) = tensor.bytes.as_chunks::<WIDTH>();
        let rows = if tensor.shape.len() > 1 {
            tensor.shape[0].max(1) as usize
        } else {
            1
        };
        let columns = (elements.len() / rows).max(1);
        let mut folded = elements.len() as u64;
        for row in elements.chunks(columns) {
            let sum: f32 = row
                .chunks(INPUT)
                .map(|part| dot(part, &self.input, widen))
                .sum();
            folded = (folded ^ u64::from(sum.to_bits()))
                .rotate_left(7)
                .wrapping_mul(0xff51_afd7_ed55_8ccd);
        }
        folded
    }
}

fn dot<const WIDTH: usize>(
    row: &[[u8; WIDTH]],
    input: &[f32],
    widen: impl Fn([u8; WIDTH]) -> f32,
) -> f32 {
    let (blocks, rest) = row.as_chunks::<LANES>();
    let (inputs, _) = input.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (block, input) in blocks.iter().zip(inputs) {
        for lane in 0..LANES {
            sums[lane] += widen(block[lane]) * input[lane];
        }
    }
    let tail = &input[blocks.len() * LANES..];
    let rest: f32 = rest
        .iter()
        .zip(tail)
        .map(|(value, input)| widen(*value) * input)
        .sum();
    sums.iter().sum::<f32>() + rest
}

/// Converts half to single precision without a branch per case, so that the compiler can vectorize
/// the loop.
fn widen_f16(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    // 2^112 moves the exponent bias from 15 to 127 and normalizes subnormals on the way.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let bits = if magnitude >= 0x0f80_0000 {
        special
    } else {
        scaled
    };
    f32::from_bits(bits | u32::from(half & 0x8000) << 16)
}

fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Mixes the bits of a value: the finalizer of the SplitMix64 generator.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(tensors: &[Tensor<'_>]) -> u64 {
        let mut pass = Pass::default();
        for tensor in tensors {
            pass.add(tensor);
        }
        pass.checksum()
    }

    #[test]
    fn alignment_and_order_do_not_matter() {
        let bytes: Vec<u8> = (0..4000u32)
            .flat_map(|i| (i as f32).to_le_bytes())
            .collect();
        let mut shifted = vec![0u8];
        shifted.extend(&bytes);
        let a = Tensor {
            file: 0,
            name: "a",
            element: Element::F32,
            shape: &[40, 100],
            bytes: &bytes,
        };
        let b = Tensor {
            name: "b",
            shape: &[4000],
            ..a
        };
        let moved = Tensor {
            bytes: &shifted[1..],
            ..a
        };
        assert_eq!(checksum(&[a, b]), checksum(&[b, moved]));
    }

    #[test]
    fn every_byte_name_and_file_counts() {
        let bytes = vec![1u8; 333];
        let mut changed = bytes.clone();
        changed[332] = 2;
        let a = Tensor {
            file: 0,
            name: "a",
            element: Element::Bytes,
            shape: &[3, 111],
            bytes: &bytes,
        };
        let checksum_of_a = checksum(&[a]);
        assert_ne!(
            checksum_of_a,
            checksum(&[Tensor {
                bytes: &changed,
                ..a
            }])
        );
        assert_ne!(checksum_of_a, checksum(&[Tensor { name: "b", ..a }]));
        assert_ne!(checksum_of_a, checksum(&[Tensor { file: 1, ..a }]));
    }

    #[test]
    fn half_precision_is_widened_exactly() {
        for (half, single) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(
                widen_f16(half).to_bits(),
                f32::to_bits(single),
                "{half:#06x}"
            );
        }
        assert!(widen_f16(0x7e00).is_nan());
    }

    #[test]
    fn product_matches_a_plain_loop() {
        let values = [0.5f32, -1.0, 2.0, 0.25];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (elements, _) = bytes.as_chunks::<4>();
        let input = Pass::default().input;
        let expected: f32 = values.iter().zip(&input).map(|(v, x)| v * x).sum();
        assert_eq!(
            dot(elements, &input, f32::from_le_bytes).to_bits(),
            expected.to_bits()
        );
    }
}
