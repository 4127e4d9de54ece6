//! Figures of the test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use super::nodes::Nodes;

/// Number of pods by Deployment and node.
pub type Spots = BTreeMap<(String, String), u32>;

/// Pods on their planned nodes, and times for which gates were closed.
#[derive(Debug, Default)]
pub struct Figures {
    planned: usize,
    there: usize,
    longest: Vec<(String, usize, Duration)>,
}

impl Figures {
    /// Counts the planned pods, and those of them that are there.
    pub fn planned(&mut self, found: &Spots, planned: &Spots) {
        for (spot, count) in planned {
            let there = found.get(spot).copied().unwrap_or(0).min(*count);
            self.planned += *count as usize;
            self.there += there as usize;
        }
    }

    /// Takes the times of all pods since the last call.
    pub fn waits(&mut self, nodes: &Nodes, what: &str) {
        let times = std::mem::take(&mut nodes.state().times);
        let waits = times.values().map(|time| match time.open {
            Some(open) => open.duration_since(time.since),
            None => time.since.elapsed(),
        });
        let longest = waits.max().unwrap_or_default();
        self.longest.push((what.to_owned(), times.len(), longest));
    }

    /// Share of planned pods that are there, in thousandths.
    pub fn permille(&self) -> usize {
        (self.there * 1_000).checked_div(self.planned).unwrap_or(0)
    }

    /// The longest time for which a gate was closed.
    pub fn longest(&self) -> Duration {
        self.longest
            .iter()
            .map(|longest| longest.2)
            .max()
            .unwrap_or_default()
    }

    /// Prints all figures of `what`.
    pub fn print(&self, what: &str) {
        let mut told = format!(
            "{what}: {} of {} planned pods are on their node\n",
            self.there, self.planned
        );
        for (what, pods, longest) in &self.longest {
            let seconds = longest.as_secs_f64();
            let line = format!("  {what}: {pods} pods, gates closed for {seconds:.2} s at most\n");
            told.push_str(&line);
        }
        // Not swallowed when the test passes.
        let _closed = std::io::stderr().write_all(told.as_bytes());
    }
}
