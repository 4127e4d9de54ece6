//! Expected results of products: sums in f64, with a bound on the error in f32.

use crate::compute::Element;

/// Unit roundoff of f32.
const ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// An exact value, and the maximum error of a result in f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expected {
    pub value: f64,
    pub bound: f64,
}

impl Expected {
    /// Sums products of exact weights and inputs with error bounds. The sum of n products in f32,
    /// in any order, is within n u / (1 - n u) of the sum of their absolute values (Higham,
    /// Accuracy and Stability of Numerical Algorithms, 3.1).
    pub fn sum(products: impl Iterator<Item = (f64, Self)>) -> Self {
        let (mut value, mut size, mut bound, mut n) = (0.0, 0.0, 0.0, 2.0);
        for (weight, input) in products {
            value += weight * input.value;
            size += (weight * input.value).abs() + weight.abs() * input.bound;
            bound += weight.abs() * input.bound;
            n += 1.0;
        }
        let relative = n * ROUNDOFF / (1.0 - n * ROUNDOFF);
        Self {
            value,
            bound: bound + relative * size,
        }
    }

    /// Adds two results, with one more rounding.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let bound = self.bound + other.bound;
        let rounding = ROUNDOFF * (value.abs() + bound);
        Self {
            value,
            bound: bound + rounding,
        }
    }

    /// Returns true if `found` is within the bound. Any value is if weights are not finite or the
    /// sum may exceed f32.
    pub fn allows(self, found: f32) -> bool {
        let is_bounded = self.value.abs() + self.bound < f64::from(f32::MAX);
        if !is_bounded {
            return true;
        }
        (f64::from(found) - self.value).abs() <= self.bound
    }
}

impl From<f32> for Expected {
    fn from(value: f32) -> Self {
        Self {
            value: f64::from(value),
            bound: 0.0,
        }
    }
}

/// A matrix in host memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub bytes: &'a [u8],
    pub columns: u32,
    pub element: Element,
}

impl Rows<'_> {
    /// Multiplies a row with the input; `None` if the row is out of range.
    pub fn times(&self, row: u32, input: &[Expected]) -> Option<Expected> {
        let row_bytes = u64::from(self.columns) * self.element.bytes();
        let start = usize::try_from(row_bytes * u64::from(row)).ok()?;
        let row = self.bytes.get(start..start + row_bytes as usize)?;
        let weights = row.chunks_exact(self.element.bytes() as usize).map(value);
        Some(Expected::sum(weights.zip(input.iter().copied())))
    }
}

/// Decodes an element: an f32, or the upper half of one.
fn value(bytes: &[u8]) -> f64 {
    let mut whole = [0; 4];
    let start = whole.len().saturating_sub(bytes.len());
    for (to, from) in whole.iter_mut().skip(start).zip(bytes) {
        *to = *from;
    }
    f64::from(f32::from_le_bytes(whole))
}

/// Generates numbers from 0.25 to 1 and from -1 to -0.25 that are exact in BF16 too, from a seed.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea and Flood, 2014)
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let number = |bits: u64| {
        let size = 0.25 + (bits & 0x3f) as f32 * (0.75 / 64.0);
        if bits & 0x40 == 0 { size } else { -size }
    };
    (0..count).map(|_| number(next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_about(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-12
    }

    #[test]
    fn rows_are_multiplied() {
        let input = [2.0, 3.0].map(Expected::from);
        let f32s: Vec<u8> = [9.0f32, 9.0, 0.5, -1.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let rows = Rows {
            bytes: &f32s,
            columns: 2,
            element: Element::F32,
        };
        let row = rows.times(1, &input).unwrap();
        assert!(is_about(row.value, -2.0));
        assert!(row.allows(-2.0) && !row.allows(-2.001));
        assert!(!row.allows(f32::NAN));
        assert!(rows.times(2, &input).is_none());
        let bf16s: Vec<u8> = f32s.chunks(4).flat_map(|four| four[2..].to_vec()).collect();
        let rows = Rows {
            bytes: &bf16s,
            element: Element::Bf16,
            ..rows
        };
        assert!(is_about(rows.times(1, &input).unwrap().value, -2.0));
    }

    #[test]
    fn bounds_of_inputs_are_bounds_of_sums() {
        let off = Expected {
            value: 1.0,
            bound: 0.5,
        };
        let sum = Expected::sum([(2.0, off), (-4.0, off)].into_iter());
        assert!(is_about(sum.value, -2.0));
        assert!(sum.allows(0.9) && sum.allows(-4.9) && !sum.allows(1.1));
        let both = sum.plus(Expected::from(10.0));
        assert!(both.allows(8.0) && both.allows(10.9) && !both.allows(11.1));
    }

    #[test]
    fn numbers_follow_from_the_seed_and_are_those_of_bf16() {
        let some = numbers(1, 1000);
        assert_eq!(some, numbers(1, 1000));
        assert_ne!(some, numbers(2, 1000));
        for number in some {
            assert!((0.25..=1.0).contains(&number.abs()));
            assert_eq!(number.to_bits() & 0xffff, 0, "{number}");
        }
    }
}
