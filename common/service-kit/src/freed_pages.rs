//! Pages that a process has freed: its allocator may keep them, and gives them back to the system when asked.

use std::time::Duration;

pub use tetris_allocator::give_back;

/// Interval between two looks at the process's memory.
const LOOK: Duration = Duration::from_secs(5);
/// Memory above the least seen with which pages are given back, in bytes.
const MUCH: u64 = 8 << 20;
/// Number of looks after which the process looks at much memory once a minute only: it may be in use.
const OFTEN: u32 = 8;
const SELDOM: u32 = 12;

/// Gives freed pages back whenever the process has grown much, for ever. For daemons whose clients make them grow.
pub async fn follow() {
    let mut growth = Growth::default();
    loop {
        if private_bytes().is_some_and(|bytes| growth.is_due(bytes)) {
            // It may take milliseconds.
            drop(tokio::task::spawn_blocking(give_back).await);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Private resident memory of this process in bytes.
fn private_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Growth of the process above the least memory that it had.
#[derive(Debug, Default)]
struct Growth {
    least: Option<u64>,
    looks: u32,
}

impl Growth {
    /// Returns true if pages are to be given back.
    fn is_due(&mut self, bytes: u64) -> bool {
        let least = self.least.map_or(bytes, |least| least.min(bytes));
        self.least = Some(least);
        if bytes.saturating_sub(least) < MUCH {
            self.looks = 0;
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks <= OFTEN || self.looks.is_multiple_of(SELDOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_grown_gives_pages_back_often_at_first_and_then_once_a_minute() {
        let mut growth = Growth::default();
        assert!(!growth.is_due(10 << 20));
        assert!(!growth.is_due((10 << 20) + MUCH - 1));
        let due: Vec<bool> = (0..24).map(|_| growth.is_due(100 << 20)).collect();
        let expected: Vec<bool> = (1..=24).map(|look| look <= 8 || look % 12 == 0).collect();
        assert_eq!(due, expected);
        // What was given back is not waited for.
        assert!(!growth.is_due(10 << 20));
        assert!(growth.is_due(100 << 20));
    }

    #[test]
    fn this_process_has_private_memory() {
        assert!(private_bytes().unwrap() > 100 << 10);
    }
}
