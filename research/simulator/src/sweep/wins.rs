//! Counts of wins: how often each policy is the best, and by how much it is not.

use serde::Serialize;

use super::SweepRun;
use crate::column::Column;
use crate::policy::Policy;

/// Largest difference in late requests, of 100,000, at which memory is compared: one in a hundred.
pub const AS_TIMELY_PER_100_000: u64 = 1_000;

/// Results of a policy in one column, over all runs of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wins {
    /// Policy.
    pub policy: Policy,
    /// Compared column.
    pub column: Column,
    /// True if only policies compete whose late requests are within
    /// [`AS_TIMELY_PER_100_000`] of the fewest.
    pub timely: bool,
    /// Number of traces in which the policy was the best, or equal to the best.
    pub wins: u64,
    /// Number of traces in which it competed.
    pub of: u64,
    /// Mean of its lead over the second best where it won alone, in thousandths of that one.
    pub lead_permille: u64,
    /// Mean excess over the best, in thousandths of the best.
    pub excess_permille: u64,
    /// Largest excess over the best, in thousandths of the best.
    pub worst_excess_permille: u64,
}

/// Returns the wins of all policies: by memory of timely ones, and by every column.
pub(super) fn wins(policies: &[Policy], runs: &[SweepRun]) -> Vec<Wins> {
    let timely = [(Column::MeanMemory, true)].into_iter();
    let views = timely.chain(Column::ALL.map(|column| (column, false)));
    views
        .flat_map(|(column, timely)| {
            let count = move |&policy| of_policy(policy, column, timely, runs);
            policies.iter().map(count)
        })
        .collect()
}

fn of_policy(policy: Policy, column: Column, timely: bool, runs: &[SweepRun]) -> Wins {
    let (mut leads, mut excesses, mut wins) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let values = competitors(run, column, timely);
        let of_policy = values.iter().find(|(competitor, _)| *competitor == policy);
        let Some(&(_, own)) = of_policy else {
            continue;
        };
        let best = values.iter().map(|&(_, value)| value).min().unwrap_or(own);
        excesses.push(permille(own - best, best));
        wins += u64::from(own == best);
        let others = values
            .iter()
            .filter(|(competitor, _)| *competitor != policy);
        let second = others.map(|&(_, value)| value).min();
        if let Some(second) = second.filter(|&second| second > own) {
            leads.push(permille(second - own, second));
        }
    }
    Wins {
        policy,
        column,
        timely,
        wins,
        of: excesses.len() as u64,
        lead_permille: mean(&leads),
        excess_permille: mean(&excesses),
        worst_excess_permille: excesses.iter().copied().max().unwrap_or(0),
    }
}

/// Returns the values of all policies that compete in a run.
pub fn competitors(run: &SweepRun, column: Column, timely: bool) -> Vec<(Policy, u64)> {
    let least = run.results.iter().map(|run| run.value(Column::Late)).min();
    let most = least.unwrap_or(0) + AS_TIMELY_PER_100_000;
    let all = run.results.iter();
    let taken = all.filter(|entry| !timely || entry.value(Column::Late) <= most);
    taken.map(|run| (run.policy, run.value(column))).collect()
}

/// Returns `part` in thousandths of `whole`; of a whole of zero, all of it is too much.
fn permille(part: u64, whole: u64) -> u64 {
    let permille = (u128::from(part) * 1_000).checked_div(u128::from(whole));
    permille.map_or(1_000 * u64::from(part > 0), |permille| permille as u64)
}

fn mean(values: &[u64]) -> u64 {
    let sum: u64 = values.iter().sum();
    sum.checked_div(values.len() as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::PolicyValues;
    use tetris_simulation::TraceKind;

    fn run(values: &[(Policy, u64, u64)]) -> SweepRun {
        let results = values.iter().map(|&(policy, memory, late)| PolicyValues {
            policy,
            values: [memory, 0, 0, late, 0],
        });
        SweepRun {
            point: 0,
            kind: TraceKind::Stable.into(),
            results: results.collect(),
            infeasible: Vec::new(),
        }
    }

    #[test]
    fn the_best_wins_by_its_lead_and_the_late_do_not_compete() {
        let runs = [
            run(&[(Policy::Dts, 100, 0), (Policy::Exact, 80, 5_000)]),
            run(&[(Policy::Dts, 100, 0), (Policy::Exact, 200, 0)]),
        ];
        let all = wins(&[Policy::Dts, Policy::Exact], &runs);
        let find = |policy, timely| {
            let found = all.iter().find(|win| {
                (win.policy, win.column, win.timely) == (policy, Column::MeanMemory, timely)
            });
            let win = found.unwrap();
            (
                win.wins,
                win.of,
                win.lead_permille,
                win.worst_excess_permille,
            )
        };
        assert_eq!(find(Policy::Dts, true), (2, 2, 500, 0));
        assert_eq!(find(Policy::Exact, true), (0, 1, 0, 1_000));
        assert_eq!(find(Policy::Dts, false), (1, 2, 500, 250));
        assert_eq!(find(Policy::Exact, false), (1, 2, 200, 1_000));
    }
}
