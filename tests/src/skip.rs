//! Leaving out a test visibly where the machine cannot run it.

use std::io::Write;

/// Reports on stderr that the running test is left out and why. Not through `eprintln!`, which the test
/// harness swallows when a test passes.
pub fn say(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// True for root, who can mount and change users.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns from a test, saying why it is left out.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::skip::say(&format!($($reason)+));
        return;
    }};
}
