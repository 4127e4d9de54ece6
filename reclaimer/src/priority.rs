//! Priority of threads.

/// Nice value of threads that yield.
pub(crate) const YIELDING: i32 = 19;

/// Lets this thread, and those that it starts, yield to all others of the process. A thread cannot take that back.
pub(crate) fn yield_to_others() {
    let thread = rustix::thread::gettid();
    if let Err(error) = rustix::process::setpriority_process(Some(thread), YIELDING) {
        tracing::debug!(%error, "a thread that yields keeps the usual priority");
    }
}
