//! One plan for a profile of 48 configurations: exact, DTS, and a general solver.

use microlp::{ComparisonOp, OptimizationDirection, Problem};
use serde_json::{Value, json};
use tetris_scaler_core::{
    Configuration, ConfigurationSpec, Profile, Rate, Slo, Weights, dts, solve,
};

use crate::clock::{Random, grid, median_us};

const MIB: u64 = 1 << 20;
const INSTANCES: u64 = 40;

/// Relation between memory and throughput.
#[derive(Clone, Copy)]
enum Kind {
    /// A runtime, the model, and buffers for each request in flight, in pages of 4 KiB.
    Measured,
    /// Random memory, independent of latency.
    Unrelated,
    /// Nearly the same memory per request in all configurations: the hardest case.
    Alike,
}

pub fn run(rounds: usize) -> Vec<Value> {
    println!(
        "one plan, 48 configurations (4 CPUs x 3 batches x 4 concurrencies), {INSTANCES} profiles each, bar 1000 us"
    );
    println!(
        "{:<34} {:>10} {:>10} {:>8} {:>8} {:>10} {:>8} {:>8} {:>8}",
        "", "exact", "slowest", "DTS", "ratio", "microlp", "ratio", "memory", "steps"
    );
    let mut selections = Vec::new();
    for (name, kind) in [
        ("measured", Kind::Measured),
        ("unrelated", Kind::Unrelated),
        ("alike", Kind::Alike),
    ] {
        for rps in [20, 200, 5_000] {
            let name = format!("{name}, {rps} requests/s");
            selections.push(report(&name, kind, rps, rounds));
        }
    }
    selections
}

fn report(name: &str, kind: Kind, rps: u64, rounds: usize) -> Value {
    let slo = Slo::try_from_us(1_000_000).expect("a second");
    let load = Rate::from_milli_rps(rps * 1_000 + 137);
    let (mut exact, mut greedy, mut general) = (Vec::new(), Vec::new(), Vec::new());
    let (mut memory, mut steps, mut proven) = (0.0, 0, true);
    for seed in 0..INSTANCES {
        let profile = profile(kind, seed);
        let solve = || solve(&profile, slo, load, Weights::PAPER).expect("feasible");
        let dts = || dts(&profile, slo, load, Weights::PAPER).expect("feasible");
        exact.push(median_us(rounds, solve));
        greedy.push(median_us(rounds, dts));
        general.push(median_us(1, || milp(&profile, slo, load)));
        let best = solve();
        memory += best.selection.cost as f64 / dts().cost as f64 / INSTANCES as f64;
        steps = steps.max(best.steps);
        proven &= best.optimal;
    }
    let slowest = exact.iter().copied().fold(0.0, f64::max);
    let [exact, greedy, general] = [exact, greedy, general].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let remark = if proven { "" } else { "  not all proven" };
    println!(
        "{name:<34} {exact:>7.1} us {slowest:>7.1} us {greedy:>5.1} us {:>8.2} {general:>7.0} us {:>8.4} {memory:>8.4} {steps:>8}{remark}",
        exact / greedy,
        exact / general,
    );
    json!({
        "name": name,
        "exact_us": exact,
        "slowest_us": slowest,
        "dts_us": greedy,
        "solver_us": general,
        "memory_ratio_to_dts": memory,
        "all_proven": proven,
    })
}

fn milp(profile: &Profile, slo: Slo, load: Rate) -> bool {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    problem.set_time_limit(std::time::Duration::from_secs(1));
    let mut sum = Vec::new();
    for (_, entry) in profile.feasible(slo) {
        let mib = entry.memory_bytes() as f64 / MIB as f64;
        let variable = problem.add_integer_var(mib, (0, 1_000_000));
        sum.push((variable, entry.rate().micro_rps() as f64 / 1e6));
    }
    problem.add_constraint(&sum, ComparisonOp::Ge, load.micro_rps() as f64 / 1e6);
    problem.solve().is_ok()
}

fn profile(kind: Kind, seed: u64) -> Profile {
    let mut random = Random(seed);
    let (weights_mib, work_us) = (100 + random.below(1_500), 10_000 + random.below(90_000));
    let mut all = Vec::new();
    for (cores, batch, threads) in grid() {
        let requests = u64::from(batch * threads);
        // Batches save a little work, and threads share the cores.
        let busy = work_us * (u64::from(batch) * 9 + 1) * u64::from(threads) / cores / 10;
        let noise = 90 + random.below(20);
        let latency_us = (busy.max(work_us * u64::from(batch) / 2) * noise / 100).min(490_000);
        let rate = (requests * 1_000_000 / latency_us).max(1);
        let (own_bytes, shared_bytes) = match kind {
            Kind::Measured => {
                let pages = random.below(2_000);
                (
                    (220 + requests * 24) * MIB + pages * 4_096,
                    weights_mib * MIB,
                )
            }
            Kind::Unrelated => ((100 + random.below(2_000)) * MIB, 0),
            Kind::Alike => (10 * MIB * rate + random.below(5 * MIB), 0),
        };
        let spec = ConfigurationSpec {
            cpu_millis: cores * 1_000,
            own_bytes,
            shared_bytes,
            batch,
            concurrency: threads,
            latency_us,
            rate_millis: None,
            gpu: None,
        };
        all.push(Configuration::try_new(spec).expect("in range"));
    }
    Profile::try_new(all).expect("a grid")
}
