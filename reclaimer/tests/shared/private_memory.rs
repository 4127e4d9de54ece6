//! Private memory of processes.

/// Private memory of this process in bytes (proc_pid_status(5)).
pub fn private_bytes() -> u64 {
    private_bytes_of(std::process::id())
}

/// Private memory of the process `id` in bytes.
pub fn private_bytes_of(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}
