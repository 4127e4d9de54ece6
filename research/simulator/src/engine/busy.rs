//! Busy cores of each node, which slow the instances on it down.

/// CPU of the threads that work on each node, in millicores.
#[derive(Clone, Debug)]
pub(super) struct Busy(Vec<u64>);

impl Busy {
    pub(super) fn new(nodes: usize) -> Self {
        Self(vec![0; nodes])
    }

    pub(super) fn begin(&mut self, node: usize, millis: u64) {
        if let Some(busy) = self.0.get_mut(node) {
            *busy += millis;
        }
    }

    pub(super) fn end(&mut self, node: usize, millis: u64) {
        if let Some(busy) = self.0.get_mut(node) {
            *busy = busy.saturating_sub(millis);
        }
    }

    /// Returns `latency_us` on a node with `all_millis`, of which the instance itself keeps
    /// `own_millis` busy: longer by `permille` if its neighbors keep all of the node busy.
    pub(super) fn disturbed(
        &self,
        node: usize,
        latency_us: u64,
        own_millis: u64,
        all_millis: u64,
        permille: u64,
    ) -> u64 {
        let busy = self.0.get(node).copied().unwrap_or(0);
        let others = busy.saturating_sub(own_millis).min(all_millis);
        latency_us + latency_us * others / all_millis.max(1) * permille / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_slow_an_instance_down_and_its_own_threads_do_not() {
        let mut busy = Busy::new(2);
        busy.begin(0, 2_000);
        assert_eq!(busy.disturbed(0, 1_000, 2_000, 8_000, 200), 1_000);
        busy.begin(0, 4_000);
        assert_eq!(busy.disturbed(0, 1_000, 2_000, 8_000, 200), 1_100);
        assert_eq!(busy.disturbed(0, 1_000, 2_000, 8_000, 0), 1_000);
        assert_eq!(busy.disturbed(1, 1_000, 0, 8_000, 200), 1_000);
        busy.end(0, 6_000);
        assert_eq!(busy.disturbed(0, 1_000, 0, 8_000, 200), 1_000);
    }
}
