//! Memory that the machine has.

const MEMINFO: &str = "/proc/meminfo";

/// Memory of the machine in bytes, if the kernel says.
pub(super) fn total() -> Option<u64> {
    parse_total(&std::fs::read_to_string(MEMINFO).ok()?)
}

/// `MemTotal:       24689724 kB`.
fn parse_total(table: &str) -> Option<u64> {
    let line = table
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_s_memory_is_read() {
        assert_eq!(parse_total("MemTotal:  2 kB\nMemFree: 1 kB\n"), Some(2048));
        for text in ["", "MemTotal: x kB", "MemTotal: 18446744073709551615 kB"] {
            assert_eq!(parse_total(text), None, "{text}");
        }
        assert!(total().is_some_and(|bytes| bytes > 1 << 20));
    }
}
