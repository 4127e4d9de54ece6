//! Pages that a process has freed: its allocator may keep them, and gives them back to the system when asked.
//!
//! The function that asks is the program's, since libraries have no unsafe code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Number of times that pages are given back after much use: what was used may be freed in steps.
const ROUNDS: u8 = 8;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();
static DUE: AtomicU8 = AtomicU8::new(0);

/// Sets the function that gives freed pages back to the system.
pub fn give_back_by(function: fn()) {
    let _first_one_counts = GIVE_BACK.set(function);
}

/// Gives freed pages back, which may take milliseconds.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Notes that megabytes are in use for a time.
pub fn used_much() {
    DUE.store(ROUNDS, Ordering::Relaxed);
}

/// Gives freed pages back if much was used lately. For a place that is reached again and again.
pub fn give_back_after_much_use() {
    let fewer = |due: u8| due.checked_sub(1);
    let due = DUE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    if due.is_ok() {
        give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn pages_are_given_back_some_times_after_much_use_and_not_otherwise() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let calls = || CALLS.load(Ordering::Relaxed);
        give_back_by(|| {
            CALLS.fetch_add(1, Ordering::Relaxed);
        });
        give_back_after_much_use();
        assert_eq!(calls(), 0);
        used_much();
        for _ in 0..100 {
            give_back_after_much_use();
        }
        assert_eq!(calls(), usize::from(ROUNDS));
    }
}
