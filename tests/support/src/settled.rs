//! Files whose time stamp can be relied on.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Waits until a file's ctime is as old as it must be for its identity to be bound (LAYOUT.md 8).
/// No call sets a ctime.
pub fn settle(path: &Path) {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = std::fs::metadata(path).unwrap();
    let ctime = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
    let age = || SystemTime::now().duration_since(UNIX_EPOCH + ctime);
    while age().is_ok_and(|age| age < GRANULARITY) {
        sleep(Duration::from_millis(1));
    }
}
