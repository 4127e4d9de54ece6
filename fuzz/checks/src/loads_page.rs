//! Conditions on any bytes taken for the page `/loads` of a gateway. Shared by the fuzz target
//! and the tests of the scaler.

use tetris_scaler::gateways::{GatewayProblem, Page};
use tetris_scaler::resources::Percentile;

use tetris_test_support::heap::Bound;

/// Pod of the gateway whose page is asked for.
pub const GATEWAY: &str = "a";
/// Longest message in bytes: 256 characters of the page twice, and a text.
const MAX_MESSAGE: usize = 4_000;

/// A function takes at least 70 bytes of the page and about 600 of memory: in the list, and in the map.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 12,
};

/// Reads a page. Returns the reason it is refused.
///
/// # Panics
///
/// If an accepted page has a latency beyond a day, a page takes too much memory, or a message is unfit for a log.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let page = HEAP.hold(bytes.len(), || Page::read(bytes, GATEWAY));
    let page = match page {
        Ok(page) => page,
        Err(GatewayProblem::Malformed(problem)) => {
            assert!((1..MAX_MESSAGE).contains(&problem.len()), "{problem}");
            assert!(!problem.contains(char::is_control), "{problem:?}");
            return Err(problem);
        }
        Err(other) => panic!("{other:?}"),
    };
    for function in page.functions.values() {
        assert!(function.waiting > 0 || function.oldest_wait_ms == 0);
        let Some(latency) = function.latency else {
            continue;
        };
        for percentile in [
            Percentile::P50,
            Percentile::P90,
            Percentile::P95,
            Percentile::P99,
        ] {
            assert!(latency.at_us(percentile) <= 86_400_000_000, "{latency:?}");
        }
    }
    Ok(())
}
