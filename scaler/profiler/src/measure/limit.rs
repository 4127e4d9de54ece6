//! Memory limits to try for an instance; the first sufficient one is its private memory.

/// Margin above the peak of an instance, in percent, and at least [`MARGIN_BYTES`]: samples every
/// few milliseconds miss peaks in between.
const MARGIN_PERCENT: u64 = 5;
/// Minimum margin, in bytes.
const MARGIN_BYTES: u64 = 4 << 20;
/// Growth from one limit to the next, in percent.
const STEP_PERCENT: u64 = 10;
/// Granularity of limits, in bytes.
const UNIT: u64 = 1 << 20;
/// Margin of an unverified limit, in percent of the peak, and beyond that in bytes: the pages of programs and
/// libraries count towards a limit too.
const UNVERIFIED_PERCENT: u64 = 20;
const UNVERIFIED_BYTES: u64 = 64 << 20;
/// Number of limits to try: the last is more than twice the first.
pub(super) const LIMITS_TRIED: usize = 9;

/// Returns the limits to try, ascending, for an instance with a peak of `peak_bytes`.
pub(super) fn limits(peak_bytes: u64) -> impl Iterator<Item = u64> {
    let margin = share(peak_bytes, MARGIN_PERCENT).max(MARGIN_BYTES);
    let first = whole(peak_bytes.saturating_add(margin));
    std::iter::successors(Some(first), |limit| {
        Some(whole(limit.saturating_add(share(*limit, STEP_PERCENT))))
    })
    .take(LIMITS_TRIED)
}

/// Returns a limit for an instance with a peak of `peak_bytes`, where none can be tried.
pub(super) const fn unverified_limit(peak_bytes: u64) -> u64 {
    let margin = share(peak_bytes, UNVERIFIED_PERCENT).saturating_add(UNVERIFIED_BYTES);
    whole(peak_bytes.saturating_add(margin))
}

const fn share(bytes: u64, percent: u64) -> u64 {
    bytes.saturating_mul(percent) / 100
}

const fn whole(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT).saturating_mul(UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_begin_a_little_above_the_peak_and_grow() {
        let all: Vec<_> = limits(1_000 << 20).map(|limit| limit >> 20).collect();
        assert_eq!(all[..3], [1_050, 1_155, 1_271]);
        assert_eq!(all.len(), LIMITS_TRIED);
        assert_eq!(limits(1).next(), Some(5 << 20));
        assert_eq!(unverified_limit(100 << 20) >> 20, 184);
        assert_eq!(limits(u64::MAX).count(), LIMITS_TRIED);
    }
}
