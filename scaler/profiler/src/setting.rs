//! What is varied: CPU, batch and concurrency.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{MAX_BATCH, MAX_CPU_MILLIS};
use thiserror::Error;

/// The most settings of one grid: what one profile may have.
pub const MAX_SETTINGS: usize = 512;
/// The most requests under way at once: each takes a connection.
pub const MAX_CLIENTS: u32 = 4_096;
/// The least CPU: less than a hundredth is below what quotas can express (1 ms in 100 ms).
const MIN_CPU_MILLIS: u64 = 10;

/// c, b and p of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setting {
    /// c, in millicores.
    pub cpu_millis: u64,
    /// b: the largest batch.
    pub batch: u32,
    /// p: concurrent inference threads.
    pub concurrency: u32,
}

impl Setting {
    /// `c<cpu_millis>-b<batch>-p<concurrency>`.
    pub fn name(&self) -> String {
        let (c, b, p) = (self.cpu_millis, self.batch, self.concurrency);
        format!("c{c}-b{b}-p{p}")
    }

    /// Requests that are under way while it is measured: one batch per thread.
    pub const fn clients(&self) -> u32 {
        self.batch.saturating_mul(self.concurrency)
    }

    /// Whole CPUs that it takes.
    pub const fn whole_cpus(&self) -> u64 {
        self.cpu_millis.div_ceil(1_000)
    }
}

/// Why there is no grid of settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GridError {
    /// Not a number of CPUs.
    #[error(
        "`{found}` is not a number of CPUs; expected one from 0.01 to 10000 with at most three decimals, such as 0.5"
    )]
    Cpus {
        /// What it was.
        found: String,
    },
    /// A batch or concurrency is out of range.
    #[error("`{field}` is {found}, must be from 1 to 4096")]
    Range {
        /// Which.
        field: &'static str,
        /// What it was.
        found: u32,
    },
    /// A list is empty.
    #[error("`{field}` is empty; give at least one value")]
    Empty {
        /// Which.
        field: &'static str,
    },
    /// A value is there twice.
    #[error("`{field}` has {found} more than once")]
    Twice {
        /// Which.
        field: &'static str,
        /// The value.
        found: u64,
    },
    /// More requests under way than there are connections for.
    #[error(
        "batch {batch} with concurrency {concurrency} takes more than {MAX_CLIENTS} requests at once"
    )]
    Clients {
        /// b.
        batch: u32,
        /// p.
        concurrency: u32,
    },
    /// Too many settings.
    #[error("{found} configurations; a profile has at most {MAX_SETTINGS}")]
    Settings {
        /// How many.
        found: usize,
    },
}

/// Reads a number of CPUs exactly: `0.5` is 500 millicores.
pub fn parse_cpus(text: &str) -> Result<u64, GridError> {
    let wrong = || GridError::Cpus {
        found: text.chars().take(40).collect(),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
    let millis = whole.checked_mul(1_000).and_then(|m| m.checked_add(part));
    millis
        .filter(|millis| (MIN_CPU_MILLIS..=MAX_CPU_MILLIS).contains(millis))
        .ok_or_else(wrong)
}

/// All settings of the three lists, in the order in which they are measured: less CPU first, then smaller
/// batches, then fewer threads, so that what rules a setting out is known before it.
pub fn grid(
    cpu_millis: &[u64],
    batch: &[u32],
    concurrency: &[u32],
) -> Result<Vec<Setting>, GridError> {
    check_lists(cpu_millis, batch, concurrency)?;
    let mut settings: Vec<_> = cpu_millis
        .iter()
        .flat_map(|&cpu_millis| batch.iter().map(move |&batch| (cpu_millis, batch)))
        .flat_map(|(cpu_millis, batch)| {
            concurrency.iter().map(move |&concurrency| Setting {
                cpu_millis,
                batch,
                concurrency,
            })
        })
        .collect();
    settings.sort_unstable();
    match settings.iter().find(|one| one.clients() > MAX_CLIENTS) {
        Some(&Setting {
            batch, concurrency, ..
        }) => Err(GridError::Clients { batch, concurrency }),
        None => Ok(settings),
    }
}

fn check_lists(cpu_millis: &[u64], batch: &[u32], concurrency: &[u32]) -> Result<(), GridError> {
    let widened = |values: &[u32]| values.iter().copied().map(u64::from).collect::<Vec<_>>();
    check_list("cpus", cpu_millis)?;
    check_list("batch", &widened(batch))?;
    check_list("concurrency", &widened(concurrency))?;
    for (field, values) in [("batch", batch), ("concurrency", concurrency)] {
        if let Some(&found) = values.iter().find(|v| !(1..=MAX_BATCH).contains(*v)) {
            return Err(GridError::Range { field, found });
        }
    }
    let found = cpu_millis
        .len()
        .saturating_mul(batch.len())
        .saturating_mul(concurrency.len());
    if found > MAX_SETTINGS {
        return Err(GridError::Settings { found });
    }
    Ok(())
}

fn check_list(field: &'static str, values: &[u64]) -> Result<(), GridError> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    if sorted.is_empty() {
        return Err(GridError::Empty { field });
    }
    let twice = sorted
        .iter()
        .zip(sorted.iter().skip(1))
        .find(|(a, b)| a == b);
    match twice {
        Some((&found, _)) => Err(GridError::Twice { field, found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_exactly() {
        for (text, millis) in [
            ("0.5", 500),
            ("1", 1_000),
            ("2.25", 2_250),
            ("0.010", 10),
            ("10000", 10_000_000),
        ] {
            assert_eq!(parse_cpus(text), Ok(millis), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "0",
            "0.001",
            "0.0001",
            "10001",
            "99999999999999999999",
            "a",
        ] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_grid_has_every_setting_once_and_what_rules_out_comes_first() {
        let settings = grid(&[2_000, 500], &[4, 1], &[2, 1]).unwrap();
        assert_eq!(settings.len(), 8);
        assert!(settings.is_sorted());
        assert_eq!(settings[1].name(), "c500-b1-p2");
    }

    #[test]
    fn errors_of_a_grid_name_the_field() {
        let error = |c: &[u64], b: &[u32], p: &[u32]| grid(c, b, p).unwrap_err().to_string();
        assert_eq!(
            error(&[], &[1], &[1]),
            "`cpus` is empty; give at least one value"
        );
        assert_eq!(
            error(&[1], &[2, 1, 2], &[1]),
            "`batch` has 2 more than once"
        );
        assert_eq!(
            error(&[1], &[1], &[0]),
            "`concurrency` is 0, must be from 1 to 4096"
        );
        assert!(
            error(&[1], &[4_096], &[2]).contains("at most")
                || error(&[1], &[4_096], &[2]).contains("4096 requests")
        );
    }
}
