//! Conditions on any bytes that are taken for the page `/v2/gpu` of an executor. Shared by the fuzz
//! target and the tests of the gateway.

use tetris_gateway::gpu::status::GpuStatus;

use crate::heap::Bound;

/// A part takes at least 19 bytes of the page, and up to 64 of memory where the list has just grown; a
/// model 38 and 160.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 8,
};

/// Reads a page. Returns the reason it is refused.
///
/// # Panics
///
/// If a page takes too much memory, or the message is not one for a log.
pub fn check(bytes: &[u8]) -> Result<GpuStatus, String> {
    let page = HEAP.hold(bytes.len(), || GpuStatus::parse(bytes));
    if let Err(problem) = &page {
        assert!((1..2000).contains(&problem.len()), "{problem}");
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    page
}
