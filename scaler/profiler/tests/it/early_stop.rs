//! Early stopping loses nothing: on servers with a known law, the exact solution over the measured
//! settings costs as much as that over all settings.

use proptest::prelude::*;
use tetris_scaler_core::{Profile, Rate, Slo, Weights, solve};
use tetris_scaler_profiler::{
    LatencyMicros, Measurement, Percentile, Setting, SloBound, grid, ruled_out,
};

/// A server that shares its CPU among threads. A batch takes `fixed`, and `each` per request;
/// beyond `threads_per_cpu` threads per CPU everything slows down in proportion or worse.
#[derive(Debug, Clone)]
struct Law {
    fixed_us: u64,
    each_us: u64,
    threads_per_cpu: f64,
    contention: f64,
    exponent: f64,
    own_bytes: u64,
    per_thread_bytes: u64,
    per_slot_bytes: u64,
    tail: f64,
}

impl Law {
    fn measure(&self, setting: Setting) -> Measurement {
        let (batch, threads) = (u64::from(setting.batch), f64::from(setting.concurrency));
        let room = setting.cpu_millis as f64 / 1_000.0 * self.threads_per_cpu;
        let alone = (self.fixed_us + self.each_us * batch) as f64;
        let crowded = (threads / room).max(1.0).powf(self.exponent);
        let p50 = alone * crowded * (1.0 + self.contention * (threads - 1.0));
        let at = |factor: f64| ((p50 * (1.0 + (self.tail - 1.0) * factor)) as u64).max(1);
        let concurrency = u64::from(setting.concurrency);
        let own_bytes =
            self.own_bytes + concurrency * (self.per_thread_bytes + batch * self.per_slot_bytes);
        Measurement {
            setting,
            own_bytes,
            verified: true,
            latency: LatencyMicros {
                p50: at(0.0),
                p90: at(0.3),
                p95: at(0.6),
                p99: at(1.0),
            },
            requests: 1_000,
            errors: 0,
            requests_per_second: 0.0,
            on_gpu: None,
        }
    }
}

/// Returns all settings, and those that the rules leave to be measured.
fn profile(law: &Law, bound: Option<SloBound>) -> (Vec<Measurement>, Vec<Measurement>) {
    let settings = grid(
        &[500, 1_000, 2_000, 4_000],
        &[1, 2, 4, 8],
        &[1, 2, 3, 4, 6, 8],
    )
    .unwrap();
    let mut measured = Vec::new();
    for &setting in &settings {
        if ruled_out(setting, &measured, bound).is_none() {
            measured.push(law.measure(setting));
        }
    }
    let all = settings.iter().map(|&setting| law.measure(setting));
    (all.collect(), measured)
}

/// Returns the memory of the exact solution, or `None` if no configuration meets the objective.
fn cost(from: &[Measurement], percentile: Percentile, slo_us: u64, rps: u64) -> Option<u128> {
    let measured = from.iter();
    let configurations = measured.map(|from| from.configuration(percentile, 100 << 20).unwrap());
    let profile = Profile::try_new(configurations.collect()).unwrap();
    let slo = Slo::try_from_us(slo_us).unwrap();
    let solution = solve(&profile, slo, Rate::from_rps(rps), Weights::PAPER).ok()?;
    assert!(solution.optimal);
    Some(solution.selection.memory_bytes)
}

fn law() -> impl Strategy<Value = Law> {
    let times = (500_u64..80_000, 0_u64..20_000, 0.5..4.0_f64);
    let crowd = (0.0..0.5_f64, 1.0..1.6_f64, 1.0..4.0_f64);
    let memory = (1_u64..400 << 20, 0_u64..50 << 20, 0_u64..10 << 20);
    (times, crowd, memory).prop_map(|(times, crowd, memory)| Law {
        fixed_us: times.0,
        each_us: times.1,
        threads_per_cpu: times.2,
        contention: crowd.0,
        exponent: crowd.1,
        tail: crowd.2,
        own_bytes: memory.0,
        per_thread_bytes: memory.1,
        per_slot_bytes: memory.2,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_useful_configuration_is_lost(law in law(), slo_us in 10_000_u64..400_000, rps in 1_u64..400, bounded: bool) {
        for lowest in Percentile::ALL {
            let bound = bounded.then_some(SloBound { slo_micros: slo_us, percentile: lowest });
            let (all, measured) = profile(&law, bound);
            for percentile in Percentile::ALL.into_iter().filter(|&entry| entry >= lowest) {
                for slo_us in [slo_us, slo_us / 2] {
                    prop_assert_eq!(cost(&all, percentile, slo_us, rps), cost(&measured, percentile, slo_us, rps));
                }
            }
        }
    }
}

#[test]
fn most_of_a_hopeless_grid_is_not_measured() {
    let law = Law {
        fixed_us: 40_000,
        each_us: 10_000,
        threads_per_cpu: 1.0,
        contention: 0.0,
        exponent: 1.0,
        own_bytes: 100 << 20,
        per_thread_bytes: 1 << 20,
        per_slot_bytes: 0,
        tail: 1.0,
    };
    let bound = SloBound {
        slo_micros: 120_000,
        percentile: Percentile::P95,
    };
    let (all, measured) = profile(&law, Some(bound));
    assert_eq!(all.len(), 96);
    // For each CPU: settings up to its threads and two more, for single requests and pairs, and one
    // batch that is too slow.
    assert!(measured.len() < 50, "{}", measured.len());
    let (_, unbounded) = profile(&law, None);
    assert!(unbounded.len() < all.len() && unbounded.len() > measured.len());
}
