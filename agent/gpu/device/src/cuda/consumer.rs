//! Waits on streams of other libraries.
#![expect(
    unsafe_code,
    reason = "calls into the driver; handles of other libraries"
)]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::CudaContext;
use super::result::check;
use crate::{MemoryError, StreamHandle};

/// A function that a stream runs.
type Wait = Box<dyn FnOnce() + Send>;

/// Runs the function on a thread of the driver.
unsafe extern "C" fn run(wait: *mut c_void) {
    // SAFETY: `queue` made the pointer from a box, and the driver calls this once.
    let wait = unsafe { Box::from_raw(wait.cast::<Wait>()) };
    // A panic must not unwind into the driver.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(*wait)).is_err() {
        tracing::error!("a wait on a stream panicked");
    }
}

/// Queues `wait` on a stream: work queued there later runs after it has returned.
pub(super) fn queue(
    context: &Arc<CudaContext>,
    stream: StreamHandle,
    wait: Wait,
) -> Result<(), MemoryError> {
    let current = context.enter()?;
    let data = Box::into_raw(Box::new(wait)).cast::<c_void>();
    let handle = stream.raw() as usize as sys::CUstream;
    // SAFETY: the handle is that of a live stream by the promise of `StreamHandle`. The driver
    // calls `run` once with `data`, or not at all if it returns an error.
    let code = unsafe { (current.driver.launch_host)(handle, Some(run), data) };
    let queued = check(code, "queue a wait on a stream");
    if queued.is_err() {
        // SAFETY: the driver has refused the pointer made above, and will not use it.
        drop(unsafe { Box::from_raw(data.cast::<Wait>()) });
    }
    queued
}
