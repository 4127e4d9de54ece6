//! Numbered protocol steps (LAYOUT.md 5) as places where a test can kill the process.

/// Environment variable: kill the process with SIGKILL when it reaches this step, counted from 1
/// over all steps that it passes. Read only in builds with the feature `crash-points`.
pub const CRASH_AT: &str = "TETRIS_CRASH_AT";

/// Environment variable: a file to which every step passed appends one line, its name. Read only
/// in builds with the feature `crash-points`.
pub const CRASH_COUNT_FILE: &str = "TETRIS_CRASH_COUNT_FILE";

/// Marks that the protocol step `name` has just been done.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) fn passed(_name: &'static str) {}

/// Marks that the protocol step `name` has just been done.
#[cfg(feature = "crash-points")]
pub(crate) fn passed(name: &'static str) {
    enabled::passed(name);
}

#[cfg(feature = "crash-points")]
mod enabled {
    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CRASH_AT: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var(super::CRASH_AT).ok()?.parse().ok());
    static COUNT_FILE: LazyLock<Option<std::ffi::OsString>> =
        LazyLock::new(|| std::env::var_os(super::CRASH_COUNT_FILE));
    static PASSED: AtomicU64 = AtomicU64::new(0);

    pub(super) fn passed(name: &'static str) {
        let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(path) = &*COUNT_FILE {
            let line = format!("{name}\n");
            let written = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes()));
            debug_assert!(written.is_ok());
        }
        if *CRASH_AT == Some(number) {
            let pid = nix::unistd::Pid::this();
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}
