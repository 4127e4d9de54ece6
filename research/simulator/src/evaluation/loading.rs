//! Instances of a model that load at the same time without the page cache (figure 14e).
//!
//! An instance of the baseline reads and decodes the whole file. Instances with a store take the lock of
//! a tensor, load it if it is missing, and map it otherwise. Two cases bound the disk, whose speed the
//! paper does not give: each loader has the speed of one (decoding takes the time), or all loaders
//! together have it (reading takes the time). Tensors are [`TENSORS`] of equal size, an assumption;
//! mapping takes no time.

use serde::Serialize;
use tetris_simulation::Rng;

use super::claim::{Basis, Compared, Relation, TetrisClaim, hundredths};
use super::startup::load_us;
use crate::catalog::TABLE_4;
use crate::platform::Platform;

/// Numbers of instances that load at the same time.
pub const LOADERS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Number of tensors of a model. Assumed.
pub const TENSORS: usize = 256;

/// Mean times of `loaders` instances until the model is loaded, in microseconds; the mean of the models
/// of table 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loading {
    /// Number of instances.
    pub loaders: u64,
    /// Baseline, each loader with the speed of one.
    pub alone_us: u64,
    /// Store, tensors in the same order for all, each loader with the speed of one.
    pub ordered_us: u64,
    /// Store, tensors in random order, each loader with the speed of one.
    pub random_us: u64,
    /// Baseline, all loaders together with the speed of one.
    pub baseline_one_disk_us: u64,
    /// Store, all loaders together with the speed of one, in any order.
    pub store_one_disk_us: u64,
}

/// Returns the times for each of [`LOADERS`].
pub fn loadings(seed: u64) -> Vec<Loading> {
    let speed = Platform::default().disk_bytes_per_s;
    let sum: u64 = TABLE_4
        .iter()
        .map(|model| load_us(model.tensor_mb, speed))
        .sum();
    let mean_us = sum / TABLE_4.len() as u64;
    let scaled = |(rounds, of): (u64, u64)| mean_us * rounds / of;
    let all = LOADERS.map(|loaders| {
        let ordered: Vec<Vec<usize>> = (0..loaders).map(|_| (0..TENSORS).collect()).collect();
        let random: Vec<Vec<usize>> = (0..loaders).map(|loader| shuffled(seed, loader)).collect();
        Loading {
            loaders,
            alone_us: mean_us,
            ordered_us: scaled(mean_rounds(&ordered)),
            random_us: scaled(mean_rounds(&random)),
            baseline_one_disk_us: mean_us * loaders,
            store_one_disk_us: mean_us,
        }
    });
    all.to_vec()
}

/// Order of the tensors of a loader.
fn shuffled(seed: u64, loader: u64) -> Vec<usize> {
    let mut rng = Rng::new(seed, loader);
    let mut order: Vec<usize> = (0..TENSORS).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.index(last + 1));
    }
    order
}

/// State of a tensor in the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tensor {
    Missing,
    Locked,
    Loaded,
}

/// Returns the sum of the rounds of all loaders, and their number times the number of tensors. In a
/// round a loader loads one tensor, or waits for the lock of one. All loads take as long, so that rounds
/// begin together.
fn mean_rounds(orders: &[Vec<usize>]) -> (u64, u64) {
    let loaders = orders.len() as u64;
    let mut store = [Tensor::Missing; TENSORS];
    let mut places = vec![0; orders.len()];
    let mut sum = 0;
    loop {
        let mut busy = 0;
        for (order, place) in orders.iter().zip(&mut places) {
            let state = |place: usize| order.get(place).and_then(|&tensor| store.get(tensor));
            while state(*place) == Some(&Tensor::Loaded) {
                *place += 1;
            }
            let Some(&tensor) = order.get(*place) else {
                continue;
            };
            busy += 1;
            if let Some(state) = store.get_mut(tensor) {
                // A locked tensor is another loader's: this one waits for the round.
                *state = Tensor::Locked;
            }
        }
        if busy == 0 {
            return (sum, loaders * TENSORS as u64);
        }
        sum += busy;
        for state in store.iter_mut().filter(|state| **state == Tensor::Locked) {
            *state = Tensor::Loaded;
        }
    }
}

/// Returns the text's statement on figure 14(e).
pub(super) fn claims(loadings: &[Loading]) -> Vec<TetrisClaim> {
    let slower = loadings.iter().filter(|loading| {
        loading.random_us > loading.alone_us
            || loading.store_one_disk_us > loading.baseline_one_disk_us
    });
    let ordered = loadings
        .iter()
        .filter(|loading| loading.random_us > loading.ordered_us);
    let claim = |name: &str, here: usize| Compared {
        figure: "14e",
        name: name.to_owned(),
        unit: "cases",
        paper: 0,
        here: Some(hundredths(here as u64)),
        basis: Basis::Simulated,
    };
    vec![
        claim(
            "numbers of loading instances for which the store is slower than the baseline",
            slower.count(),
        )
        .is(
            Relation::AtMost,
            "contention of locks takes longer than the loads that it saves",
        ),
        claim(
            "numbers of loading instances for which random order is slower than a common order",
            ordered.count(),
        )
        .is(Relation::AtMost, "random orders meet at the same locks"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_with_a_common_order_load_nothing_in_parallel() {
        for loading in loadings(1) {
            assert_eq!(loading.ordered_us, loading.alone_us);
        }
    }

    #[test]
    fn instances_with_random_orders_divide_the_tensors() {
        let all = loadings(1);
        assert_eq!(all[0].random_us, all[0].alone_us);
        assert!(all.is_sorted_by(|fewer, more| fewer.random_us > more.random_us));
        // No order can be faster than an even division.
        assert!(
            all.iter()
                .all(|loading| loading.random_us >= loading.alone_us / loading.loaders)
        );
    }
}
