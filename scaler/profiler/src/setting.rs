//! Settings to measure: CPU, batch size and concurrency.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{MAX_BATCH, MAX_CPU_MILLIS};
use thiserror::Error;

/// Maximum number of settings of one grid, the limit of a profile.
pub const MAX_SETTINGS: usize = 512;
/// Maximum number of requests in flight: each takes a connection.
pub const MAX_CLIENTS: u32 = 4_096;
/// Minimum CPU in millicores: quotas cannot express less than 1 ms in 100 ms.
const MIN_CPU_MILLIS: u64 = 10;

/// CPU, batch size and concurrency of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setting {
    /// CPU (c), in millicores.
    pub cpu_millis: u64,
    /// Maximum batch size (b).
    pub batch: u32,
    /// Number of concurrent inference threads (p).
    pub concurrency: u32,
}

impl Setting {
    /// Name of the setting: `c<cpu_millis>-b<batch>-p<concurrency>`.
    pub fn name(&self) -> String {
        let (c, b, p) = (self.cpu_millis, self.batch, self.concurrency);
        format!("c{c}-b{b}-p{p}")
    }

    /// Number of requests in flight during the measurement: one batch per thread.
    pub const fn clients(&self) -> u32 {
        self.batch.saturating_mul(self.concurrency)
    }

    /// Number of whole CPUs that it takes.
    pub const fn whole_cpus(&self) -> u64 {
        self.cpu_millis.div_ceil(1_000)
    }
}

/// The reason a grid of settings is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GridError {
    /// Text that is not a number of CPUs.
    #[error(
        "`{found}` is not a number of CPUs; expected one from 0.01 to 10000 with at most three decimals, such as 0.5"
    )]
    Cpus {
        /// Value given.
        found: String,
    },
    /// A batch size or concurrency out of range.
    #[error("`{field}` is {found}, expected 1 to 4096")]
    Range {
        /// Name of the list.
        field: &'static str,
        /// Value given.
        found: u32,
    },
    /// An empty list.
    #[error("`{field}` is empty; give at least one value")]
    Empty {
        /// Name of the list.
        field: &'static str,
    },
    /// A repeated value.
    #[error("`{field}` has {found} more than once")]
    Twice {
        /// Name of the list.
        field: &'static str,
        /// The value.
        found: u64,
    },
    /// More requests in flight than connections.
    #[error(
        "batch {batch} with concurrency {concurrency} takes more than {MAX_CLIENTS} requests in flight"
    )]
    Clients {
        /// Batch size.
        batch: u32,
        /// Concurrency.
        concurrency: u32,
    },
    /// Too many settings.
    #[error("found {found} configurations, expected at most {MAX_SETTINGS}")]
    Settings {
        /// Number of settings.
        found: usize,
    },
}

/// Parses a number of CPUs exactly, in millicores: `0.5` is 500.
///
/// # Errors
///
/// Fails if `text` is not a number of CPUs, has more than three decimals, or is out of range.
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

/// Returns all settings of the three lists in the order of measurement: less CPU first, then
/// smaller batches, then fewer threads. So a setting comes after those that may rule it out.
///
/// # Errors
///
/// Fails if a list is empty or has a value twice, or if a value or the number of settings is out of
/// range.
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
    match settings
        .iter()
        .find(|setting| setting.clients() > MAX_CLIENTS)
    {
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
            "`concurrency` is 0, expected 1 to 4096"
        );
        assert!(
            error(&[1], &[4_096], &[2]).contains("at most")
                || error(&[1], &[4_096], &[2]).contains("4096 requests")
        );
    }
}
