//! Fit of assumptions to the paper's figures.

use serde::Serialize;

use super::claims::FaasClaim;
use super::popularity::Popularity;

/// Popularity and memory, with the claims that they bring within 5 points of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaasFit {
    /// Popularity.
    pub popularity: Popularity,
    /// Memory of a GPU, in megabytes.
    pub memory_mb: u64,
    /// Number of claims within 5 points.
    pub close: usize,
    /// Number of claims.
    pub claims: usize,
    /// Mean distance from the paper, in hundredths of a percent.
    pub mean_distance: u64,
}

impl FaasFit {
    pub(super) fn of(popularity: Popularity, memory_mb: u64, claims: &[FaasClaim]) -> Self {
        let distances = claims
            .iter()
            .map(|claim| claim.paper.abs_diff(claim.simulated));
        Self {
            popularity,
            memory_mb,
            close: claims.iter().filter(|claim| claim.is_close()).count(),
            claims: claims.len(),
            mean_distance: distances.sum::<u64>() / claims.len().max(1) as u64,
        }
    }

    /// The best of several: most claims within 5 points, then the least distance.
    pub fn best(fits: &[Self]) -> Option<&Self> {
        let order = |fit: &&Self| (fit.close, std::cmp::Reverse(fit.mean_distance));
        fits.iter().max_by_key(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_close_claims_come_before_the_least_distance() {
        let claim = |simulated| FaasClaim {
            figure: "4a",
            name: String::new(),
            paper: -5_000,
            simulated,
        };
        let of = |simulated: [i64; 2]| {
            let claims = simulated.map(claim);
            FaasFit::of(Popularity::Uniform, simulated[0].unsigned_abs(), &claims)
        };
        let fits = [of([-5_600, -5_600]), of([-5_400, 0]), of([-5_500, -4_000])];
        let counts = fits.map(|fit| (fit.close, fit.mean_distance));
        assert_eq!(counts, [(0, 600), (1, 2_700), (1, 750)]);
        assert_eq!(FaasFit::best(&fits), Some(&fits[2]));
    }
}
