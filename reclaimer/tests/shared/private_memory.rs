//! Memory of a test's own process.

/// Private memory of this process in bytes (proc_pid_status(5)).
pub fn private_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}
