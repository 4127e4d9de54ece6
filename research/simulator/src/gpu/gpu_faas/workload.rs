//! Functions and requests of GPU-FaaS's evaluation.

use std::collections::BTreeMap;

use serde::Serialize;
use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::gpu::{Gpu, GpuModel, GpuRequest, ModelId, ObjectId, Part, Topology};
use tetris_simulation::Rng;

use super::models::TABLE;
use super::popularity::Popularity;

/// A setting of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaasSetting {
    /// Number of functions, each with its own model.
    pub working_set: u32,
    /// Popularity of functions.
    pub popularity: Popularity,
    /// Device memory of a GPU for models, in megabytes.
    pub memory_mb: u64,
    /// Number of GPUs.
    pub gpus: u32,
    /// Requests per minute.
    pub per_minute: u64,
    /// Number of minutes.
    pub minutes: u64,
    /// Seed of arrivals, and of the models of popular functions.
    pub seed: u64,
}

impl FaasSetting {
    /// GPUs, each with its own link: the table's load times are all that a load takes.
    pub(super) fn topology(&self) -> Topology {
        let gpu = |number| Gpu {
            memory_bytes: self.memory_mb * 1_000_000,
            node: number / 4,
            switch: number,
        };
        Topology {
            gpus: (0..self.gpus).map(gpu).collect(),
            host_bytes_per_s: u64::MAX,
            peers: BTreeMap::new(),
        }
    }

    /// Models of the functions, by rank of popularity. Sizes are spread evenly over the table, and
    /// the seed chooses which of them are popular.
    pub(super) fn models(&self) -> Vec<GpuModel> {
        let count = u64::from(self.working_set);
        let rows = TABLE.len() as u64;
        // Whole rounds through the table, then the rest of it at equal distances.
        let rest = count % rows;
        let mut places: Vec<u64> = (0..count - rest).map(|at| at % rows).collect();
        places.extend((0..rest).map(|at| at * rows / rest));
        let mut rng = Rng::new(self.seed, 71);
        for last in (1..places.len()).rev() {
            places.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let model = |(number, place): (usize, u64)| {
            let &(_, mb, load, infer) = TABLE.get(place as usize)?;
            Some(GpuModel {
                parts: vec![Part {
                    object: ObjectId(number as u64),
                    bytes: mb * 1_000_000,
                }],
                setup_us: load * 10_000,
                infer_us: infer * 10_000,
                after_load_us: infer * 10_000,
            })
        };
        places.into_iter().enumerate().filter_map(model).collect()
    }

    /// Requests in the order of their arrival: each minute has the same number of each function,
    /// at random moments.
    pub(super) fn requests(&self) -> Vec<GpuRequest> {
        let counts = self.counts();
        let mut rng = Rng::new(self.seed, 72);
        let mut all = Vec::new();
        for minute in 0..self.minutes {
            for (function, &count) in counts.iter().enumerate() {
                for _ in 0..count {
                    all.push((minute * 60_000_000 + rng.below(60_000_000), function as u32));
                }
            }
        }
        all.sort_unstable();
        let request = |(id, (arrived_us, function)): (usize, (u64, u32))| GpuRequest {
            id: RequestId(id as u64),
            function,
            model: ModelId(function),
            arrived_us,
            deadline_us: None,
        };
        all.into_iter().enumerate().map(request).collect()
    }

    /// Requests per minute of each function, with the sum of all: largest remainders.
    fn counts(&self) -> Vec<u64> {
        let ranks = 1..=u64::from(self.working_set);
        let weights: Vec<u64> = ranks.map(|rank| self.popularity.weight(rank)).collect();
        let sum = weights.iter().sum::<u64>().max(1);
        let part = |weight: &u64| self.per_minute * weight;
        let mut counts: Vec<u64> = weights.iter().map(|weight| part(weight) / sum).collect();
        let missing = self.per_minute - counts.iter().sum::<u64>();
        let mut by_rest: Vec<usize> = (0..counts.len()).collect();
        by_rest.sort_by_key(|&at| {
            let rest = weights.get(at).map_or(0, |weight| part(weight) % sum);
            std::cmp::Reverse(rest)
        });
        for at in by_rest.into_iter().take(missing as usize) {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minute_has_all_requests_and_every_function_its_part() {
        for popularity in Popularity::ALL {
            let setting = FaasSetting {
                working_set: 35,
                popularity,
                memory_mb: 8_000,
                gpus: 12,
                per_minute: 325,
                minutes: 2,
                seed: 1,
            };
            assert_eq!(setting.counts().iter().sum::<u64>(), 325);
            assert!(setting.counts().is_sorted_by(|one, next| one >= next));
            let requests = setting.requests();
            assert_eq!(requests.len(), 650);
            assert!(requests.is_sorted_by_key(|request| request.arrived_us));
            let models = setting.models();
            assert_eq!(models.len(), 35);
            let large = models.iter().filter(|model| model.bytes() > 3_600_000_000);
            assert!((9..=13).contains(&large.count()));
        }
    }
}
