//! Processor time and memory of a process.

use anyhow::{Context, Result};

/// Seconds of a core that all its threads have spent.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).context("the proxy has ended")?;
    let mut nanoseconds = 0.0;
    for task in tasks {
        // schedstat counts nanoseconds, stat only ticks of ten milliseconds.
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += text
            .split_whitespace()
            .next()
            .unwrap_or("0")
            .parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// Resident memory, in MB.
pub fn resident_mb(pid: u32) -> Result<f64> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("the proxy has ended")?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.context("no VmRSS")? * 1024.0 / 1e6)
}
