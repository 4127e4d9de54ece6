//! Conditions on any bytes taken for the page `/v2/gpu` of an executor. Shared by the fuzz
//! target and the tests of the gateway.

use tetris_gateway::gpu::PageError;
use tetris_gateway::gpu::status::GpuStatus;

use tetris_test_support::heap::Bound;

/// Names stay on the page, unless they have escapes. What is read of it is bounded by the number of entries: 4,096 models of 72
/// bytes, 256 links of 32, and 16,384 parts of 32, of one model at a time.
pub const HEAP: Bound = Bound {
    fixed: 1 << 20,
    per_byte: 1,
};

/// Reads a page with all parts. Returns the reason it is refused.
///
/// # Panics
///
/// If a page takes too much memory, or the message is not one for a log.
pub fn check(bytes: &[u8]) -> Result<GpuStatus<'_>, String> {
    let page = HEAP.hold(bytes.len(), || {
        let page = GpuStatus::parse(bytes)?;
        for model in page.models.iter() {
            model.parts()?;
        }
        Ok(page)
    });
    let page = page.map_err(|problem: PageError| problem.to_string());
    if let Err(problem) = &page {
        assert!((1..2000).contains(&problem.len()), "{problem}");
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    page
}
