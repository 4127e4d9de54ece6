//! Columns by which policies are compared.

use serde::Serialize;

use crate::outcome::RunOutcome;

/// A quantity of a run; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Mean memory, in bytes.
    MeanMemory,
    /// Peak memory, in bytes.
    PeakMemory,
    /// Mean CPU, in millicores.
    MeanCpu,
    /// Requests beyond the objective, of 100,000.
    Late,
    /// Number of instances that had to read weights from the disk.
    ColdStarts,
}

impl Column {
    /// All columns, in the order of reports. Durations of decisions are none of them: they do not
    /// follow from the seed.
    pub const ALL: [Self; 5] = [
        Self::MeanMemory,
        Self::PeakMemory,
        Self::MeanCpu,
        Self::Late,
        Self::ColdStarts,
    ];

    /// Name of the column in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MeanMemory => "mean memory",
            Self::PeakMemory => "peak memory",
            Self::MeanCpu => "mean CPU",
            Self::Late => "late requests",
            Self::ColdStarts => "cold starts",
        }
    }

    /// Returns the value of the column.
    pub fn of(self, outcome: &RunOutcome) -> u64 {
        match self {
            Self::MeanMemory => outcome.memory_bytes.mean,
            Self::PeakMemory => outcome.memory_bytes.peak,
            Self::MeanCpu => outcome.cpu_millis.mean,
            Self::Late => outcome.late_per_100_000(),
            Self::ColdStarts => outcome.cold_starts,
        }
    }

    /// Returns true if `value` is worse than `other` by more than a run's chance: a hundredth, and
    /// for counts a tenth of a percent of the requests, or two cold starts.
    pub fn is_worse(self, value: u64, other: u64) -> bool {
        let slack = match self {
            Self::MeanMemory | Self::PeakMemory | Self::MeanCpu => other / 100,
            Self::Late => (other / 100).max(100),
            Self::ColdStarts => (other / 100).max(2),
        };
        value > other.saturating_add(slack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_more_than_chance() {
        assert!(!Column::MeanMemory.is_worse(101, 100));
        assert!(Column::MeanMemory.is_worse(102, 100));
        assert!(!Column::Late.is_worse(100, 0) && Column::Late.is_worse(101, 0));
        assert!(!Column::ColdStarts.is_worse(2, 0) && Column::ColdStarts.is_worse(3, 0));
    }
}
