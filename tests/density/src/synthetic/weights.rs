//! Numbers distributed like trained weights: roughly normal, mean 0, standard deviation 0.02.

use super::{Kind, Spec};
use crate::compute::mix;

/// Standard deviation of the weights.
const DEVIATION: f32 = 0.02;
/// Step of the counter-based generator (SplitMix64): value `i` of a stream is `mix(start + i *
/// STEP)`.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Generates the little-endian bytes of a tensor. The same seed and origin always give the same
/// bytes.
pub fn fill(spec: &Spec, seed: u64) -> Vec<u8> {
    let start = stream(seed, &spec.origin);
    let count = spec.shape.iter().product::<u64>();
    let mut bytes = Vec::with_capacity(spec.len() as usize);
    match spec.kind {
        Kind::F32 => {
            (0..count).for_each(|i| bytes.extend_from_slice(&weight(start, i).to_le_bytes()));
        }
        Kind::Bf16 => (0..count).for_each(|i| {
            let upper = (weight(start, i).to_bits() >> 16) as u16;
            bytes.extend_from_slice(&upper.to_le_bytes());
        }),
    }
    bytes
}

/// Start of the generator for one origin.
fn stream(seed: u64, origin: &str) -> u64 {
    origin
        .bytes()
        .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)))
}

/// Value `i` of a stream: the sum of four uniform 16-bit numbers approximates a normal distribution
/// well enough, and takes one step of the generator.
fn weight(start: u64, i: u64) -> f32 {
    let random = mix(start.wrapping_add(i.wrapping_mul(STEP)));
    let sum =
        (random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48);
    // Four uniform numbers on [0, 65535] have mean 131070 and standard deviation 37837.
    (sum as f32 - 131_070.0) * (DEVIATION / 37_837.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: Kind, origin: &str) -> Spec {
        Spec {
            name: "w".into(),
            shape: vec![100, 1000],
            kind,
            origin: origin.into(),
        }
    }

    #[test]
    fn moments_are_those_of_weights() {
        let bytes = fill(&spec(Kind::F32, "a"), 1);
        let values: Vec<f64> = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f64::from(f32::from_le_bytes(*b)))
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 2e-4, "{mean}");
        assert!((variance.sqrt() - 0.02).abs() < 2e-4, "{variance}");
    }

    #[test]
    fn seed_and_origin_decide() {
        let a = fill(&spec(Kind::Bf16, "a"), 1);
        assert_eq!(a.len(), 200_000);
        assert_eq!(a, fill(&spec(Kind::Bf16, "a"), 1));
        assert_ne!(a, fill(&spec(Kind::Bf16, "b"), 1));
        assert_ne!(a, fill(&spec(Kind::Bf16, "a"), 2));
    }
}
