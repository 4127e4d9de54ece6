//! Medians, the paper's grid, and reproducible random numbers.

use std::time::Instant;

use tetris_test_support::stats;

/// Returns the median time of `work`, in microseconds.
pub fn median_us<T>(rounds: usize, mut work: impl FnMut() -> T) -> f64 {
    let times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(work());
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    stats::median(&times).unwrap_or(f64::NAN)
}

/// Random number generator SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Returns 48 settings of CPUs, batch size and concurrency.
pub fn grid() -> impl Iterator<Item = (u64, u32, u32)> {
    let cpus = 1..=4_u64;
    let batches = cpus.flat_map(|cores| [1, 2, 4_u32].map(|batch| (cores, batch)));
    batches.flat_map(|(cores, batch)| (1..=4).map(move |threads| (cores, batch, threads)))
}
