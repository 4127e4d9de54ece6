//! Configurations that can be part of an optimal selection.

use crate::configuration::Configuration;
use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::Slo;

/// A configuration as the solver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Index in the profile.
    pub(super) index: usize,
    /// Cost in units of [`Problem::unit`].
    pub(super) cost: u128,
    /// Rate in millionths of a request per second.
    pub(super) rate: u128,
}

/// The items that no other item makes redundant.
#[derive(Debug)]
pub(super) struct Problem {
    /// The item with the least cost per request.
    pub(super) base: Item,
    /// The other items, ascending by cost per request.
    pub(super) others: Vec<Item>,
    /// Greatest common divisor of all costs, in bytes.
    pub(super) unit: u128,
}

impl Problem {
    /// Creates the problem; `None` if no configuration meets `slo`.
    pub(super) fn new(profile: &Profile, slo: Slo, weights: Weights) -> Option<Self> {
        let mut feasible: Vec<(usize, &Configuration)> = profile.feasible(slo).collect();
        feasible.sort_by(|(_, a), (_, b)| weights.by_normalized_throughput(a, b));
        let mut kept: Vec<Item> = Vec::new();
        for (index, entry) in feasible {
            let item = Item {
                index,
                cost: u128::from(weights.of(entry)),
                rate: u128::from(entry.rate().micro_rps()),
            };
            // An item that makes another redundant costs no more per request, so it came before.
            if !kept.iter().any(|other| other.replaces(&item)) {
                kept.push(item);
            }
        }
        // Rates are rounded, so the order by exact quotients may differ from that by rounded ones.
        kept.sort_by(|a, b| (a.cost * b.rate).cmp(&(b.cost * a.rate)));
        let unit = kept
            .iter()
            .fold(0, |unit, item| gcd(unit, item.cost))
            .max(1);
        for item in &mut kept {
            item.cost /= unit;
        }
        let mut items = kept.into_iter();
        let base = items.next()?;
        Some(Self {
            base,
            others: items.collect(),
            unit,
        })
    }
}

impl Item {
    /// Returns true if some number of these items cost no more than one `other` and carry no less.
    fn replaces(&self, other: &Item) -> bool {
        let copies = other.cost / self.cost.max(1);
        copies > 0 && copies.saturating_mul(self.rate) >= other.rate
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::ConfigurationSpec;

    fn problem(rows: &[(u64, u32)]) -> Problem {
        let configurations = rows.iter().enumerate().map(|(at, &(own_bytes, batch))| {
            Configuration::try_new(ConfigurationSpec {
                cpu_millis: at as u64 + 1,
                own_bytes,
                shared_bytes: 0,
                batch,
                concurrency: 1,
                latency_us: 1_000,
                rate_millis: None,
                gpu: None,
            })
            .unwrap()
        });
        let profile = Profile::try_new(configurations.collect()).unwrap();
        Problem::new(&profile, Slo::try_from_us(2_000).unwrap(), Weights::PAPER).unwrap()
    }

    #[test]
    fn what_copies_of_another_replace_is_left_out() {
        // Two of (10, 2) replace (20, 4) and (25, 3); (25, 5) is cheaper than three; (5, 1) is a
        // half.
        let problem = problem(&[(25, 3), (25, 5), (10, 2), (20, 4), (6, 1), (12, 2)]);
        assert_eq!(problem.base.index, 2);
        let kept: Vec<usize> = problem.others.iter().map(|item| item.index).collect();
        assert_eq!(kept, [1, 4]);
    }

    #[test]
    fn costs_are_in_units_of_their_common_divisor() {
        let problem = problem(&[(20, 2), (35, 3)]);
        assert_eq!(problem.unit, 5);
        assert_eq!((problem.base.cost, problem.others[0].cost), (4, 7));
    }
}
