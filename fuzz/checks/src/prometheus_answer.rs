//! Conditions on any bytes taken for an answer of Prometheus. Shared by the fuzz target and the
//! tests of the scaler.

use tetris_scaler::load::{LoadError, by_pod, latency, total};

use tetris_test_support::heap::Bound;

/// A sample takes at least 17 bytes of the answer, and up to 112 of memory where the list has just grown.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 8,
};

/// Reads an answer in the three ways. Returns true if it is a load.
///
/// # Panics
///
/// If the ways disagree, an answer takes too much memory, or a message is unfit for a log.
pub fn check(bytes: &[u8]) -> bool {
    let load = HEAP.hold(bytes.len(), || total(bytes));
    let pods = HEAP.hold(bytes.len(), || by_pod(bytes));
    let slowest = HEAP.hold(bytes.len(), || latency(bytes));
    for problem in [
        load.as_ref().err(),
        pods.as_ref().err(),
        slowest.as_ref().err(),
    ] {
        let text = problem.map_or_else(|| "-".to_owned(), LoadError::to_string);
        assert!((1..2_000).contains(&text.len()), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    if let (Ok(load), Ok(pods)) = (&load, &pods) {
        let labelled = pods.values().copied().sum();
        assert!(*load >= labelled, "{load:?} is less than {labelled:?}");
    }
    load.is_ok()
}
