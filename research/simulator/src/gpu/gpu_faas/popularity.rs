//! Popularity of functions.

use serde::Serialize;

/// Weight of all requests.
const UNIT: u64 = 1_000_000_000;
/// Functions of the upper tier of the trace (V-A).
const TOP: u64 = 15;
/// Their part of all requests, in percent.
const TOP_PERCENT: u64 = 56;
/// Greatest part of any other function, in percent, if the paper's "0.01 %" is a fraction.
const REST_PERCENT: u64 = 1;

/// Number of requests of a function against that of the most popular one, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Popularity {
    /// As many of each.
    Uniform,
    /// By the inverse square root of the rank.
    Root,
    /// By the inverse of the rank.
    Zipf,
    /// 56 % for the first fifteen together, as many of each, and 1 % for each of the others.
    TwoTier,
    /// The same tiers, the first by the inverse square root of the rank.
    TwoTierRoot,
    /// The same tiers, the first by the inverse of the rank. Its last function has 1.1 %, next to the
    /// other tier's 1 %.
    TwoTierZipf,
}

impl Popularity {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Uniform,
        Self::Root,
        Self::Zipf,
        Self::TwoTier,
        Self::TwoTierRoot,
        Self::TwoTierZipf,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Root => "root",
            Self::Zipf => "zipf",
            Self::TwoTier => "two-tier",
            Self::TwoTierRoot => "two-tier-root",
            Self::TwoTierZipf => "two-tier-zipf",
        }
    }

    pub(super) fn weight(self, rank: u64) -> u64 {
        match self {
            Self::Uniform => UNIT,
            Self::Root => UNIT * 1_000 / (rank * 1_000_000).isqrt(),
            Self::Zipf => UNIT / rank,
            Self::TwoTier => Self::Uniform.tier(rank),
            Self::TwoTierRoot => Self::Root.tier(rank),
            Self::TwoTierZipf => Self::Zipf.tier(rank),
        }
    }

    /// Weight in two tiers, the upper of which has this popularity.
    fn tier(self, rank: u64) -> u64 {
        if rank > TOP {
            return UNIT * REST_PERCENT / 100;
        }
        let sum: u64 = (1..=TOP).map(|rank| self.weight(rank)).sum();
        let part = u128::from(self.weight(rank)) * u128::from(UNIT * TOP_PERCENT / 100);
        u64::try_from(part / u128::from(sum)).unwrap_or(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_have_the_papers_parts_and_the_lower_one_is_flat() {
        for popularity in [
            Popularity::TwoTier,
            Popularity::TwoTierRoot,
            Popularity::TwoTierZipf,
        ] {
            let top: u64 = (1..=15).map(|rank| popularity.weight(rank)).sum();
            assert!((UNIT * 56 / 100).abs_diff(top) < 20, "{top}");
            assert!(popularity.weight(15) > popularity.weight(16));
            assert_eq!(popularity.weight(16), UNIT / 100);
            assert_eq!(popularity.weight(35), UNIT / 100);
        }
        assert_eq!(
            Popularity::TwoTier.weight(1),
            Popularity::TwoTier.weight(15)
        );
        let [first, last] = [1, 15].map(|rank| Popularity::TwoTierZipf.weight(rank));
        assert_eq!((first / 1_000_000, last / 1_000_000), (168, 11));
    }
}
