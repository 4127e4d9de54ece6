//! The integer program (1) to (5), solved exactly.

mod candidates;
mod frontier;
mod search;

use serde::Serialize;

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::selection::{Choice, Selection, SloTooTight};

/// How many partial solutions are made unless told otherwise. Profiles of the paper's size need up to some
/// thousand; so many take 60 MB, and less than a second.
pub const DEFAULT_STEPS: usize = 1_000_000;

/// A solution of the integer program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Solution {
    /// The instances.
    pub selection: Selection,
    /// No selection that carries the load costs less than this, in bytes.
    pub lower_bound: u128,
    /// Whether `selection.cost` is proven to be the least possible. Only a search that was cut short
    /// leaves it unproven.
    pub optimal: bool,
    /// How many partial solutions were made.
    pub steps: usize,
}

/// The cheapest instances that carry `residual` within `slo`: the integer program (1) to (5) of Tetris
/// 3.2, with `m + alpha c` for `m` where `weights` say so.
///
/// This is an unbounded covering knapsack over the configurations that meet the objective. See
/// [`solve_within`] for how it is solved; this is the same with [`DEFAULT_STEPS`].
///
/// The answer never costs more than that of [`dts`](crate::dts), and does not depend on the order of
/// the profile except between configurations that are equal in all that counts.
pub fn solve(
    profile: &Profile,
    slo: Slo,
    residual: Rate,
    weights: Weights,
) -> Result<Solution, SloTooTight> {
    solve_within(profile, slo, residual, weights, DEFAULT_STEPS)
}

/// [`solve`], making no more than `max_steps` partial solutions, and what the last of them leads to.
///
/// **Pruning.** A configuration is left out when `k` instances of another cost no more than one of it
/// and carry no less. Of the rest, the *base* has the least cost per request: `c0` for a rate of `w0`.
///
/// **Bound.** Let a partial solution, of other configurations, cost `c` and carry `w < R`. The rest
/// costs at least `c0 / w0` per request, so any completion costs `c + ceil((R - w) c0 / w0)` or more,
/// in units of the greatest common divisor of all costs. Filling up with the base costs
/// `c + c0 ceil((R - w) / w0)`, less than `c0` beyond that bound. So what other configurations may lose
/// against the base is limited by `c0` at the start and by less with each better solution; it does not
/// grow with the load.
///
/// **Dominance.** Partial solutions are looked at by ascending cost, of equal ones the largest rate
/// first. Write `c = q c0 + f` with `f < c0`, and `d = (q + 1) w0 - w`, which is above zero. One is
/// dropped if another, seen before, has `f' <= f` and `d' <= d`: since `q' <= q`, the other with
/// `q - q'` instances of the base costs no more and carries no less, and what completes the one
/// completes the other. So no two of the same cost are extended, and their number is limited by the
/// total cost over the common divisor.
///
/// The best solution so far, and a bound on all others, are returned when the steps run out. All of it
/// is in integers.
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
    let found = search::search(&problem, u128::from(residual.micro_rps()), max_steps);
    let choices = problem.choices(found.base_count, &found.others);
    let selection = Selection::new(profile, weights, choices);
    let lower_bound = found.lower_bound * problem.unit;
    Ok(Solution {
        optimal: lower_bound == selection.cost,
        lower_bound,
        selection,
        steps: found.steps,
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
    /// `base_count` of the base and one of each of `others`, as choices.
    fn choices(&self, base_count: u64, others: &[usize]) -> Vec<Choice> {
        let mut counts = std::collections::BTreeMap::from([(self.base.index, base_count)]);
        for item in others.iter().filter_map(|&other| self.others.get(other)) {
            let count: &mut u64 = counts.entry(item.index).or_default();
            *count = count.saturating_add(1);
        }
        let each = counts.into_iter();
        each.map(|(configuration, count)| Choice {
            configuration,
            count,
        })
        .collect()
    }
}
