//! Profiles for tests.

use proptest::prelude::*;
use tetris_scaler_core::{Configuration, ConfigurationSpec, Profile, Slo};

pub const MIB: u64 = 1 << 20;

pub fn slo_ms(ms: u64) -> Slo {
    Slo::try_from_us(ms * 1_000).unwrap()
}

/// Creates a profile from rows of (CPU in cores, memory in MiB, batch size, concurrency, latency in
/// ms).
pub fn profile(rows: &[(u64, u64, u32, u32, u64)]) -> Profile {
    let configurations = rows.iter().map(|&(cores, mib, batch, concurrency, ms)| {
        let spec = ConfigurationSpec {
            cpu_millis: cores * 1_000,
            own_bytes: mib * MIB / 2,
            shared_bytes: mib * MIB / 2,
            batch,
            concurrency,
            latency_us: ms * 1_000,
            rate_millis: None,
            gpu: None,
        };
        Configuration::try_new(spec).unwrap()
    });
    Profile::try_new(configurations.collect()).unwrap()
}

/// Generates 1 to 48 configurations over the paper's grid of CPUs, batch sizes and threads.
pub fn profiles() -> impl Strategy<Value = Profile> {
    let grid: Vec<(u64, u32, u32)> = (1..=4_u64)
        .flat_map(|cpu| [1, 2, 4].map(|batch| (cpu, batch)))
        .flat_map(|(cpu, batch)| (1..=4).map(move |threads| (cpu, batch, threads)))
        .collect();
    let sizes = 1..=grid.len();
    proptest::sample::subsequence(grid, sizes).prop_flat_map(|settings| {
        let count = settings.len();
        let numbers = (100..4_000_u64, 5..900_u64, 0..60_u64);
        let numbers = proptest::collection::vec(numbers, count);
        (numbers, any::<bool>()).prop_map(move |(numbers, alike)| {
            let settings_and_numbers = settings.iter().zip(numbers);
            let rows = settings_and_numbers.map(|(&(cpu, batch, threads), (mib, ms, more))| {
                // If memory is proportional to throughput, hardly any configuration is redundant.
                let rate = u64::from(batch * threads) * 1_000_000 / ms;
                let mib = if alike { 50 + rate / 50 + more } else { mib };
                (cpu, mib, batch, threads, ms)
            });
            profile(&rows.collect::<Vec<_>>())
        })
    })
}
