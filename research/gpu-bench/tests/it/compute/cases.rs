//! Random products, and the error bound of their results.

use proptest::prelude::*;
use tetris_gpu_bench::compute::Element;

/// Shape and contents of a random product.
#[derive(Debug, Clone)]
pub struct Case {
    pub rows: u32,
    pub columns: u32,
    pub element: Element,
    /// Number of elements before the matrix, so that it starts at any multiple of an element.
    pub skipped: u32,
    pub accumulate: bool,
    pub seed: u64,
}

/// Shapes below, at and above the step sizes of the kernels.
pub fn cases() -> impl Strategy<Value = Case> {
    let columns = prop_oneof![1u32..=70, 250u32..=262, 1020u32..=1030, Just(4096)];
    let element = prop_oneof![Just(Element::F32), Just(Element::Bf16)];
    let numbers = (1u32..=20, columns, 0u32..=9, any::<u64>());
    (numbers, element, any::<bool>()).prop_map(
        |((rows, columns, skipped, seed), element, accumulate)| Case {
            rows,
            columns,
            element,
            // Half of them start at a multiple of 16 bytes.
            skipped: if seed % 2 == 0 { 0 } else { skipped },
            accumulate,
            seed,
        },
    )
}

/// Contents of a case.
#[derive(Debug)]
pub struct Numbers {
    /// The weights as stored, after the skipped elements.
    pub bytes: Vec<u8>,
    pub weights: Vec<f32>,
    pub input: Vec<f32>,
    /// The output before the product.
    pub before: Vec<f32>,
}

impl Case {
    pub fn numbers(&self) -> Numbers {
        let mut state = self.seed;
        // xorshift64*, of which the upper bits give -1 to 1
        let mut next = move || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bits = (state | 1).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
            bits as f32 / (1u64 << 23) as f32 - 1.0
        };
        let skipped = self.skipped as usize;
        let count = self.rows as usize * self.columns as usize;
        let mut weights: Vec<f32> = (0..skipped + count).map(|_| next()).collect();
        if self.element == Element::Bf16 {
            let cut = |x: f32| f32::from_bits(x.to_bits() & 0xffff_0000);
            weights = weights.into_iter().map(cut).collect();
        }
        let bytes = weights.iter().flat_map(|x| stored(self.element, *x));
        Numbers {
            bytes: bytes.collect(),
            weights: weights.split_off(skipped),
            input: (0..self.columns).map(|_| next()).collect(),
            before: (0..self.rows).map(|_| next()).collect(),
        }
    }

    /// Compares with sums in f64. A sum of n products in f32, in any order, is within n u / (1 - n
    /// u) of the sum of their absolute values, u = 2^-24 (Higham, Accuracy and Stability of
    /// Numerical Algorithms, 3.1).
    pub fn check(&self, numbers: &Numbers, found: &[f32]) {
        assert_eq!(found.len(), self.rows as usize);
        let rows = numbers.weights.chunks(self.columns as usize);
        for (row, (weights, found)) in rows.zip(found).enumerate() {
            let start = if self.accumulate {
                f64::from(numbers.before[row])
            } else {
                0.0
            };
            let (mut sum, mut size) = (start, start.abs());
            for (w, x) in weights.iter().zip(&numbers.input) {
                let product = f64::from(*w) * f64::from(*x);
                sum += product;
                size += product.abs();
            }
            let n = f64::from(self.columns + 2) * 2f64.powi(-24);
            let bound = n / (1.0 - n) * size;
            let error = (f64::from(*found) - sum).abs();
            assert!(
                error <= bound,
                "row {row}: {found}, expected {sum} +- {bound}"
            );
        }
    }
}

fn stored(element: Element, value: f32) -> Vec<u8> {
    let bytes = value.to_le_bytes();
    match element {
        Element::F32 => bytes.to_vec(),
        Element::Bf16 => bytes[2..].to_vec(),
    }
}
