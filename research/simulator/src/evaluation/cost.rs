//! Memory and money of all applications together under growing load (figure 14b).

use serde::Serialize;

use super::claim::{Basis, Compared, Relation, TetrisClaim};
use super::grid::{Experiment, LOADS_RPS};
use super::run::TetrisRun;
use crate::paper::SAVED_TENTHS_GB;
use crate::policy::Policy;

/// Price of a gigabyte for a second, in millionths of a dollar: the paper takes 0.0504 dollars per hour
/// for it, which is the price of an r6g.medium with 8 GB.
pub const MICRO_DOLLARS_PER_GB_S: i64 = 14;
/// Requests of the paper's website in a day.
const REQUESTS_PER_DAY: i64 = 1_900_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Memory of the policies under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CostRow {
    /// Load of all applications together, in requests per second.
    pub rps: u64,
    /// Compared policy.
    pub policy: Policy,
    /// Policy that takes more.
    pub against: Policy,
    /// Memory saved for 100 requests/s, in bytes.
    pub bytes_per_100_rps: i64,
}

/// Returns the savings of DTS and of sharing-aware plans under each load.
pub(super) fn rows(runs: &[TetrisRun]) -> Vec<CostRow> {
    let memory = |rps, policy| {
        let mut of_load = runs.iter().filter(|run| {
            (run.experiment, run.policy, run.rps) == (Experiment::Cost, policy, Some(rps))
        });
        Some(i128::from(of_load.next()?.memory_bytes.mean))
    };
    let mut rows = Vec::new();
    for rps in LOADS_RPS {
        for policy in [Policy::Dts, Policy::SharingAware] {
            for (against, _) in SAVED_TENTHS_GB {
                let saved = memory(rps, against)
                    .zip(memory(rps, policy))
                    .map(|(before, after)| (before - after) * 100 / i128::from(rps));
                rows.extend(saved.and_then(|saved| {
                    Some(CostRow {
                        rps,
                        policy,
                        against,
                        bytes_per_100_rps: i64::try_from(saved).ok()?,
                    })
                }));
            }
        }
    }
    rows
}

const LESS_MEMORY: &str = "no application saves more than about 10 GB per 100 requests/s by itself, so no mix \
     of them saves 61.5: an instance carries about five times as many requests here, and the text gives \
     neither latencies nor loads";
const FOLLOWS: &str = "it follows from the saved memory";

/// Returns the text's statements on figure 14(b), at the highest load.
pub(super) fn claims(rows: &[CostRow]) -> Vec<TetrisClaim> {
    let highest = LOADS_RPS.iter().max().copied().unwrap_or(0);
    let saved = |against| {
        let mut of_load = rows
            .iter()
            .filter(|row| (row.rps, row.policy, row.against) == (highest, Policy::Dts, against));
        of_load.next().map(|row| row.bytes_per_100_rps)
    };
    let claim = |name: String, unit, paper, here| Compared {
        figure: "14b",
        name,
        unit,
        paper,
        here,
        basis: Basis::Simulated,
    };
    let mut claims = Vec::new();
    // Hundredths of a gigabyte.
    let gigabytes = |bytes: i64| bytes / 10_000_000;
    for ((against, tenths), micro) in SAVED_TENTHS_GB.into_iter().zip([861, 283]) {
        let bytes = saved(against);
        let paper = i64::try_from(tenths * 10).unwrap_or(i64::MAX);
        claims.push(
            claim(
                format!("memory saved for 100 requests/s: DTS under {against}"),
                "GB",
                paper,
                bytes.map(gigabytes),
            )
            .is(Relation::Near, LESS_MEMORY),
        );
        claims.push(
            claim(
                format!("saved for 100 requests/s in a second: DTS under {against}"),
                "u$",
                micro * 100,
                bytes.map(|bytes| gigabytes(bytes) * MICRO_DOLLARS_PER_GB_S),
            )
            .is(Relation::Near, FOLLOWS),
        );
    }
    let per_day = saved(Policy::Infless).map(dollars_per_day);
    claims.push(
        claim(
            "saved in a day with 1.9 billion requests: DTS under INFless".to_owned(),
            "$",
            1_635_900,
            per_day,
        )
        .is(Relation::Near, FOLLOWS),
    );
    claims
}

/// Dollars that memory saved for 100 requests/s is worth in a day of the website, in hundredths.
fn dollars_per_day(bytes: i64) -> i64 {
    let rate = i128::from(REQUESTS_PER_DAY) / i128::from(SECONDS_PER_DAY);
    let bytes = i128::from(bytes) * rate / 100;
    let micro_dollars =
        bytes * i128::from(MICRO_DOLLARS_PER_GB_S * SECONDS_PER_DAY) / 1_000_000_000;
    i64::try_from(micro_dollars / 10_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_memory_has_the_papers_price() {
        let dollars = dollars_per_day(61_500_000_000);
        assert!(dollars.abs_diff(1_635_900) < 1_635_900 / 500, "{dollars}");
        assert_eq!(615 * MICRO_DOLLARS_PER_GB_S / 10, 861);
        assert_eq!(202 * MICRO_DOLLARS_PER_GB_S / 10, 282);
    }
}
