//! Processor time and memory of a process.

use anyhow::{Context, Result};

/// Seconds of a core that all its threads have spent.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).context("the daemon has ended")?;
    let mut nanoseconds = 0.0;
    for task in tasks {
        // schedstat counts nanoseconds, stat only ticks of ten milliseconds.
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let spent: f64 = text.split_whitespace().next().unwrap_or("0").parse()?;
        nanoseconds += spent;
    }
    Ok(nanoseconds / 1e9)
}

/// A field of `/proc/PID/status`, in MB.
pub fn memory_mb(pid: u32, field: &str) -> Result<f64> {
    memory(&format!("/proc/{pid}/status"), field)
}

/// Its share of the mapped memory, in MB: a page of several processes counts in parts.
pub fn share_mb(pid: u32) -> Result<f64> {
    memory(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn memory(path: &str, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(path).context("the daemon has ended")?;
    let line = text.lines().find(|line| line.starts_with(field));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .with_context(|| format!("no {field} in {path}"))?;
    Ok(kib * 1024.0 / 1e6)
}
