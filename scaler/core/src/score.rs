//! Score of a node for one more instance of a model.

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::inventory::Similarity;

/// CPU and memory of a node, in total or free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// CPU, in millicores.
    pub cpu_millis: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// Weight of free resources relative to similarity, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Spread(u32);

impl Default for Spread {
    /// Returns one tenth: free resources decide between nodes with similar shares of the model.
    fn default() -> Self {
        Self(100)
    }
}

impl Spread {
    /// Creates a weight from 0, only similarity as in the paper, to 1,000, only free resources.
    ///
    /// # Errors
    ///
    /// Fails if `permille` exceeds 1,000.
    pub fn try_new(permille: u64) -> Result<Self, FieldError> {
        FieldError::check("spread_permille", permille, 0, 1_000)
            .map(|permille| Self(permille as u32))
    }

    /// Returns the score of a node, from 0 to 1,000: `(1 - spread) theta + spread room`, in
    /// thousandths.
    ///
    /// `room` is the smaller of the shares of CPU and memory that are `free` of `all`. Without it,
    /// the node of the first instance would get all others until it is full: they would share its
    /// CPU and its failures.
    pub fn score(self, theta: Similarity, free: Resources, all: Resources) -> u32 {
        let room =
            share(free.cpu_millis, all.cpu_millis).min(share(free.memory_bytes, all.memory_bytes));
        // Each share is at most 1,000.
        let theta = theta
            .permille()
            .saturating_mul(1_000_u32.saturating_sub(self.0));
        theta.saturating_add(room.saturating_mul(self.0)) / 1_000
    }
}

/// Returns `part` of `all` in thousandths, at most 1,000; 0 if `all` is 0.
fn share(part: u64, all: u64) -> u32 {
    let permille = (u128::from(part) * 1_000).checked_div(u128::from(all));
    permille.map_or(0, |permille| permille.min(1_000) as u32)
}

impl TryFrom<u64> for Spread {
    type Error = FieldError;

    fn try_from(permille: u64) -> Result<Self, FieldError> {
        Self::try_new(permille)
    }
}

impl From<Spread> for u64 {
    fn from(spread: Spread) -> Self {
        spread.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Resources = Resources {
        cpu_millis: 1_000,
        memory_bytes: 2_000,
    };

    fn theta(resident_bytes: u64) -> Similarity {
        Similarity {
            resident_bytes,
            total_bytes: 1_000,
        }
    }

    #[test]
    fn room_decides_between_similar_nodes_and_similarity_between_others() {
        let spread = Spread::default();
        let (full, empty) = (
            Resources {
                cpu_millis: 0,
                memory_bytes: 2_000,
            },
            ALL,
        );
        assert_eq!(spread.score(theta(1_000), full, ALL), 900);
        assert_eq!(spread.score(theta(1_000), empty, ALL), 1_000);
        assert_eq!(spread.score(theta(880), empty, ALL), 892);
        assert_eq!(spread.score(theta(500), empty, ALL), 550);
    }

    #[test]
    fn the_ends_are_similarity_alone_and_room_alone() {
        let half = Resources {
            cpu_millis: 700,
            memory_bytes: 1_000,
        };
        assert_eq!(
            Spread::try_new(0).unwrap().score(theta(300), half, ALL),
            300
        );
        assert_eq!(
            Spread::try_new(1_000).unwrap().score(theta(300), half, ALL),
            500
        );
        assert_eq!(Spread::try_new(1_001).unwrap_err().field, "spread_permille");
    }

    #[test]
    fn hostile_numbers_stay_within_the_scale() {
        let most = Resources {
            cpu_millis: u64::MAX,
            memory_bytes: u64::MAX,
        };
        let none = Resources::default();
        for spread in [0, 100, 1_000].map(|permille| Spread::try_new(permille).unwrap()) {
            assert!(spread.score(theta(u64::MAX), most, none) <= 1_000);
            assert!(spread.score(theta(u64::MAX), most, ALL) <= 1_000);
        }
    }
}
