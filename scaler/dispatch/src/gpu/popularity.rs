//! Recent requests of each model.

/// Number of requests after which older ones count half.
const HALF_LIFE: u64 = 2_048;
const ONE: u64 = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Popularity {
    counts: Vec<u64>,
    total: u64,
}

impl Popularity {
    pub(crate) fn add(&mut self, model: usize) {
        if self.counts.len() <= model {
            self.counts.resize(model + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(model) {
            *count += ONE;
            self.total += ONE;
        }
        if self.total > HALF_LIFE * ONE {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// Expected number of requests for the model among the next `requests`, in thousandths.
    pub(crate) fn expected_milli(&self, model: usize, requests: u64) -> u64 {
        let count = self.counts.get(model).copied().unwrap_or(0);
        let all = u128::from(count) * u128::from(requests) * 1_000;
        (all / u128::from(self.total.max(1))) as u64
    }
}
