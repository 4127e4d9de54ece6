//! Exact solution of the integer program (1) to (5).

mod candidates;
mod frontier;
mod search;

use serde::Serialize;

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::selection::{Choice, Selection, SloTooTight};

/// Default number of partial solutions. Profiles of the paper's size need up to some thousand; this
/// many take 60 MB, and less than a second.
pub const DEFAULT_STEPS: usize = 1_000_000;

/// A solution of the integer program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Solution {
    /// The selected instances.
    pub selection: Selection,
    /// Lower bound of the cost of any selection that carries the load, in bytes.
    pub lower_bound: u128,
    /// True if `selection.cost` is proven optimal. False only after a search that ran out of steps.
    pub optimal: bool,
    /// Number of partial solutions created.
    pub steps: usize,
}

/// Solves the integer program (1) to (5) of Tetris 3.2: the cheapest instances that carry
/// `residual` within `slo`, with `m + alpha c` for `m` if `weights` have an alpha.
///
/// This is an unbounded covering knapsack over the configurations that meet the objective.
/// [`solve_within`] describes the algorithm; this function calls it with [`DEFAULT_STEPS`].
///
/// The solution never costs more than that of [`dts`](crate::dts). It does not depend on the order
/// of the profile, except between equivalent configurations.
///
/// # Errors
///
/// Fails if no configuration meets `slo`.
pub fn solve(
    profile: &Profile,
    slo: Slo,
    residual: Rate,
    weights: Weights,
) -> Result<Solution, SloTooTight> {
    solve_within(profile, slo, residual, weights, DEFAULT_STEPS)
}

/// Solves as [`solve`] does, with at most `max_steps` partial solutions and the successors of the
/// last.
///
/// **Pruning.** The search skips a configuration if `k` instances of another cost no more than one
/// of it and carry no less. Of the rest, the *base* has the least cost per request: `c0` for a rate
/// of `w0`.
///
/// **Bound.** Let a partial solution, of other configurations, cost `c` and carry `w < R`. The
/// rest costs at least `c0 / w0` per request, so any completion costs at least
/// `c + ceil((R - w) c0 / w0)`, in units of the greatest common divisor of all costs. Completion by
/// the base costs `c + c0 ceil((R - w) / w0)`, less than `c0` beyond that bound. So the loss of
/// other configurations against the base is limited by `c0` at the start, and by less with each
/// better solution; it does not grow with the load.
///
/// **Dominance.** The search visits partial solutions by ascending cost, among equal ones the
/// largest rate first. Write `c = q c0 + f` with `f < c0`, and `d = (q + 1) w0 - w`, which is
/// positive. It drops one if an earlier one has `f' <= f` and `d' <= d`. Since `q' <= q`, the
/// earlier one with `q - q'` instances of the base costs no more and carries no less, and any
/// completion of the dropped one completes it too. So the search extends no two of the same cost,
/// and their number is at most the total cost over the common divisor.
///
/// If the steps run out, the result is the best solution so far, with a lower bound of all others.
/// All arithmetic is in integers.
///
/// # Errors
///
/// Fails if no configuration meets `slo`.
pub fn solve_within(
    profile: &Profile,
    slo: Slo,
    residual: Rate,
    weights: Weights,
    max_steps: usize,
) -> Result<Solution, SloTooTight> {
    let problem = candidates::Problem::new(profile, slo, weights);
    let Some(problem) = problem.filter(|_| !residual.is_zero()) else {
        if residual.is_zero() {
            return Ok(nothing());
        }
        return Err(SloTooTight {
            slo_us: slo.us(),
            least_slo_us: profile.least_slo_us(),
        });
    };
    let best = search::search(&problem, u128::from(residual.micro_rps()), max_steps);
    let choices = problem.choices(best.base_count, &best.others);
    let selection = Selection::new(profile, weights, choices);
    let lower_bound = best.lower_bound * problem.unit;
    Ok(Solution {
        optimal: lower_bound == selection.cost,
        lower_bound,
        selection,
        steps: best.steps,
    })
}

fn nothing() -> Solution {
    Solution {
        selection: Selection::default(),
        lower_bound: 0,
        optimal: true,
        steps: 0,
    }
}

impl candidates::Problem {
    /// Returns `base_count` of the base and one of each of `others`, as choices.
    fn choices(&self, base_count: u64, others: &[usize]) -> Vec<Choice> {
        let mut counts = std::collections::BTreeMap::from([(self.base.index, base_count)]);
        for item in others.iter().filter_map(|&other| self.others.get(other)) {
            let count: &mut u64 = counts.entry(item.index).or_default();
            *count = count.saturating_add(1);
        }
        let indexed = counts.into_iter();
        indexed
            .map(|(configuration, count)| Choice {
                configuration,
                count,
            })
            .collect()
    }
}
