//! The length of a prefix.

/// Bytes of a model that must be resident before a request, so that its copy does not delay the
/// first token: equation (1) of TIDAL, `M_prefetch = max(M_model - T_TTFT x B_PCIe, 0)`.
///
/// `ttft_us` is the time to the first token with the whole model resident, in microseconds, and
/// `bytes_per_sec` the measured bandwidth. TIDAL's figure 17 shows why it must be measured: 15.7 GB
/// in 632 ms are 24.8 GB/s of a link of nominally 32 GB/s, with which the result would be 0.
pub fn prefix_bytes(model_bytes: u64, ttft_us: u64, bytes_per_sec: u64) -> u64 {
    let hidden = u128::from(ttft_us) * u128::from(bytes_per_sec) / 1_000_000;
    let hidden = u64::try_from(hidden).unwrap_or(u64::MAX);
    model_bytes.saturating_sub(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper() {
        // Llama3-8B, 2k: 571 ms of inference hide 14.2 of 15.7 GB, and 4 GB of prefix suffice.
        let prefix = prefix_bytes(15_700_000_000, 571_000, 24_800_000_000);
        assert_eq!(prefix, 1_539_200_000);
        assert_eq!(prefix_bytes(15_700_000_000, 571_000, 32_000_000_000), 0);
        assert_eq!(prefix_bytes(1, 0, u64::MAX), 1);
        assert_eq!(prefix_bytes(u64::MAX, u64::MAX, u64::MAX), 0);
    }
}
