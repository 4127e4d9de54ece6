//! Functions of the evaluation and their requests.

use tetris_scaler_core::Rate;
use tetris_simulation::Rng;

use crate::dispatch::poisson::Poisson;
use crate::trace::{TraceShape, rates};

use super::costs::TidalCosts;
use super::kind::FunctionKind;
use super::setting::TidalSetting;

/// Number of functions.
pub(super) const FUNCTIONS: u32 = 16;
/// Tasks of table 2 with their average input length, in tokens.
const TASKS: [(&str, u64); 4] = [
    ("Mail", 867),
    ("Conv", 1_154),
    ("Code", 2_048),
    ("LongBench", 6_101),
];
/// Length of the paper's original traces in days.
const DAYS: u64 = 7;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub number: u32,
    pub kind: FunctionKind,
    /// Place of its task in table 2.
    task: usize,
    /// Length of its inputs in tokens.
    pub tokens: u64,
}

impl Function {
    /// All functions: each kind has each task once.
    pub(super) fn all() -> Vec<Self> {
        let kinds = FunctionKind::ALL.into_iter();
        let pairs = kinds.flat_map(|kind| {
            let tasks = TASKS.into_iter().enumerate();
            tasks.map(move |(task, (_, tokens))| (kind, task, tokens))
        });
        let numbered = (0..FUNCTIONS).zip(pairs);
        numbered
            .map(|(number, (kind, task, tokens))| Self {
                number,
                kind,
                task,
                tokens,
            })
            .collect()
    }

    /// Time of a warm request until its first token, in microseconds.
    pub(super) fn warm_us(&self, costs: &TidalCosts) -> u64 {
        let base = costs.base(self.kind.base);
        let adapter_us = if self.kind.dynamic {
            base.adapter_us
        } else {
            0
        };
        adapter_us + self.tokens * base.prompt_ns / 1_000
    }

    /// Class of the function's rate: 0 for low, 1 for medium, 2 for high. Kinds and tasks have all
    /// three in turns.
    fn rate_class(&self, turn: u32) -> usize {
        let kind = self.number as usize / TASKS.len();
        (kind + self.task + turn as usize) % 3
    }
}

/// An arrival: time in microseconds, and function.
pub(super) type Arrival = (u64, u32);

/// Arrivals of all functions, in their order.
pub(super) fn arrivals(setting: &TidalSetting) -> Vec<Arrival> {
    let functions = Function::all();
    let weight = |function: &Function| {
        let class = function.rate_class(setting.turn);
        setting.rates.get(class).copied().unwrap_or(0)
    };
    let sum = functions.iter().map(weight).sum::<u64>().max(1);
    let shape = TraceShape {
        // A day of the original takes that part of the run.
        period_s: (setting.seconds / DAYS).max(2),
        ..TraceShape::default()
    };
    let mut all = Vec::new();
    for function in &functions {
        let micro_rps = setting.per_minute * 1_000_000 * weight(function) / (60 * sum);
        let mean = Rate::from_micro_rps(micro_rps);
        let stream = u64::from(function.number);
        let seed = Rng::new(setting.seed, 2_000 + stream).next_u64();
        let trace = rates(setting.trace, &shape, setting.seconds, mean, seed);
        let rng = Rng::new(setting.seed, 3_000 + stream);
        all.extend(at_rates(&trace, rng).map(|at_us| (at_us, function.number)));
    }
    all.sort_unstable();
    all
}

/// Arrivals of a Poisson process with a rate for each second: one of a constant rate whose time
/// passes as fast as requests are expected.
fn at_rates(rates: &[Rate], rng: Rng) -> impl Iterator<Item = u64> {
    let mut expected = Poisson::new(Rate::from_rps(1), rng);
    let mut next = expected.next();
    let mut before = 0_u64;
    let seconds = (0_u64..).zip(rates.to_vec());
    seconds.flat_map(move |(second, rate)| {
        let micro = rate.micro_rps();
        let mut here = Vec::new();
        while let Some(at) = next.filter(|&at| at < before + micro) {
            let part = u128::from(at - before) * 1_000_000 / u128::from(micro.max(1));
            here.push(second * 1_000_000 + part as u64);
            next = expected.next();
        }
        before += micro;
        here
    })
}
