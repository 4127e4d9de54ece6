//! The daemon's own process, under the names that all Prometheus clients use.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Ticks per second in `/proc`: USER_HZ, which is 100 in the ABI of every architecture that the
/// store runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` at each scrape. Unreadable values are left out.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stat = read("/proc/self/stat");
        if let Some(ticks) = cpu_ticks(&stat) {
            let metric = ConstCounter::new(ticks as f64 / TICKS_PER_SECOND);
            write(
                &mut encoder,
                "process_cpu",
                "User and system CPU time of the daemon.",
                &Unit::Seconds,
                &metric,
            )?;
        }
        if let Some(start) = start_seconds(&stat, &read("/proc/stat")) {
            let metric = ConstGauge::new(start);
            write(
                &mut encoder,
                "process_start_time",
                "When the daemon started, in seconds since the epoch.",
                &Unit::Seconds,
                &metric,
            )?;
        }
        if let Some(bytes) = resident_bytes(&read("/proc/self/status")) {
            let metric = ConstGauge::new(bytes);
            write(
                &mut encoder,
                "process_resident_memory",
                "Resident memory of the daemon.",
                &Unit::Bytes,
                &metric,
            )?;
        }
        Ok(())
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: &Unit,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, Some(unit), metric.metric_type())?)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A field of `/proc/<pid>/stat`, by its number in proc_pid_stat(5). Those up to the command, which
/// may hold blanks and parentheses, cannot be asked for.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_command) = stat.rsplit_once(") ")?;
    let index = number.checked_sub(3)?;
    after_command.split_whitespace().nth(index)?.parse().ok()
}

/// Fields 14 and 15: time in user and in kernel mode.
fn cpu_ticks(stat: &str) -> Option<u64> {
    stat_field(stat, 14)?.checked_add(stat_field(stat, 15)?)
}

/// Field 22 is in ticks since boot; `btime` of `/proc/stat` is when that was.
fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let booted: u64 = field(system, "btime ")?;
    Some(booted as f64 + stat_field(stat, 22)? as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<u64> {
    field(status, "VmRSS:")?.checked_mul(1024)
}

/// The first number of the line that begins with `key`.
fn field(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_blanks_and_parentheses_shifts_no_field() {
        let fields: Vec<String> = (4..=30).map(|n| n.to_string()).collect();
        let stat = format!("7 (a) b (c) S {}", fields.join(" "));
        assert_eq!(cpu_ticks(&stat), Some(14 + 15));
        assert_eq!(start_seconds(&stat, "cpu 1\nbtime 1000\n"), Some(1000.22));
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        assert_eq!(cpu_ticks(""), None);
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
        assert_eq!(start_seconds("", "btime x"), None);
        assert_eq!(resident_bytes("VmRSS:\t18446744073709551615 kB"), None);
        assert_eq!(
            resident_bytes("VmSize: 1 kB\nVmRSS:\t 12 kB\n"),
            Some(12 * 1024)
        );
    }
}
