//! Reasons why configurations were chosen or not.

use serde::Serialize;
use tetris_scaler_core::{Configuration, Rate, Shortage};

use super::fit::Fit;
use super::functions::Function;
use super::problem::Problem;

/// The reason a configuration was chosen or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(super) enum Verdict {
    /// It has instances.
    Chosen { replicas: u32 },
    /// The function does not allow it.
    NotAllowed,
    /// Its latency exceeds the limit. The limit of batches is half of the objective, as requests
    /// wait for a batch to fill.
    TooSlow { latency_us: u64, limit_us: u64 },
    /// No empty node has room for one instance.
    TooLarge { node: String, missing: Shortage },
    /// Another configuration carries as much and takes no more of any resource.
    Dominated { by: String },
    /// The chosen configurations carry the load at lower cost.
    NotNeeded,
}

/// A configuration with its cost and verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Candidate {
    pub(super) configuration: String,
    /// Cost of private memory and CPU, per request per second.
    pub(super) cost_bytes_per_rps: u64,
    /// Number of instances that would carry the load without other configurations.
    pub(super) alone_replicas: u64,
    /// Cost of those instances, without tensors.
    pub(super) alone_cost_bytes: u128,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// Returns all configurations of the function, in the order of the profile.
pub(super) fn candidates(
    problem: &Problem,
    function: &Function,
    planned: Rate,
    replicas: impl Fn(usize) -> u32,
) -> Vec<Candidate> {
    let all = All {
        function,
        planned,
        fit: Fit::new(problem, function),
    };
    let configurations = function.model.profile.configurations().iter();
    let names = function.names.iter();
    let named = configurations.zip(names).enumerate();
    named
        .map(|(index, (one, name))| Candidate {
            configuration: name.clone(),
            cost_bytes_per_rps: all.cost_per_rps(one),
            alone_replicas: all.alone(one),
            alone_cost_bytes: u128::from(all.alone(one)) * u128::from(all.cost(one)),
            verdict: all.verdict(index, one, replicas(index)),
        })
        .collect()
}

struct All<'a> {
    function: &'a Function,
    planned: Rate,
    fit: Fit<'a>,
}

impl All<'_> {
    fn cost_per_rps(&self, one: &Configuration) -> u64 {
        let cost = u128::from(self.cost(one)) * 1_000_000;
        let rate = u128::from(one.rate().micro_rps().max(1));
        u64::try_from(cost / rate).unwrap_or(u64::MAX)
    }

    fn alone(&self, one: &Configuration) -> u64 {
        let rate = one.rate().micro_rps().max(1);
        self.planned.micro_rps().div_ceil(rate)
    }

    fn cost(&self, one: &Configuration) -> u64 {
        let alpha = self.function.model.alpha_bytes_per_millicore;
        let cpu = alpha.saturating_mul(one.cpu_millis());
        one.private_bytes().saturating_add(cpu)
    }

    fn verdict(&self, index: usize, one: &Configuration, replicas: u32) -> Verdict {
        if replicas > 0 {
            return Verdict::Chosen { replicas };
        }
        if !self.is_allowed(index) {
            return Verdict::NotAllowed;
        }
        let slo = self.function.model.slo;
        if !one.meets(slo) {
            let share = if one.batch() == 1 { 1 } else { 2 };
            return Verdict::TooSlow {
                latency_us: one.latency_us(),
                limit_us: slo.us() / share,
            };
        }
        if let Some((node, missing)) = self
            .fit
            .closest(one)
            .filter(|(_, missing)| !missing.is_none())
        {
            let node = node.to_owned();
            return Verdict::TooLarge { node, missing };
        }
        self.dominating(index, one)
            .map_or(Verdict::NotNeeded, |by| Verdict::Dominated { by })
    }

    fn is_allowed(&self, index: usize) -> bool {
        let allowed = &self.function.model.allowed;
        allowed.is_empty() || allowed.contains(&index)
    }

    fn dominating(&self, index: usize, one: &Configuration) -> Option<String> {
        let slo = self.function.model.slo;
        let all = self.function.model.profile.configurations().iter();
        let mut others = all.zip(&self.function.names).enumerate();
        let better = others.find(|(other, (better, _))| {
            *other != index
                && self.is_allowed(*other)
                && better.meets(slo)
                && dominates(better, one)
        });
        better.map(|(_, (_, name))| name.clone())
    }
}

/// Returns true if `better` is at least as fast, needs no more of any resource, and is not equal to
/// `one`.
fn dominates(better: &Configuration, one: &Configuration) -> bool {
    let key = |one: &Configuration| {
        (
            one.rate(),
            one.own_bytes(),
            one.cpu_millis(),
            one.gpu().copied(),
        )
    };
    let of_gpu = match (better.gpu(), one.gpu()) {
        (None, None) => true,
        (Some(better), Some(one)) => {
            better.kind == one.kind
                && better.own_bytes <= one.own_bytes
                && better.share_permille <= one.share_permille
        }
        _ => false,
    };
    of_gpu
        && better.rate() >= one.rate()
        && better.own_bytes() <= one.own_bytes()
        && better.cpu_millis() <= one.cpu_millis()
        && key(better) != key(one)
}
