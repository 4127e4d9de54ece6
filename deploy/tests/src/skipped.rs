//! Leaving out a test visibly.

use std::io::Write;

/// Reports on stderr that the running test is left out and why. Not through `eprintln!`, which the test harness swallows when a
/// test passes.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let _closed = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}
