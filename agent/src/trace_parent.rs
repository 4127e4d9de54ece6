//! The span that this process's requests to the daemon belong to.

use std::cell::RefCell;
use std::sync::OnceLock;

/// Environment variable with the span of the process that started this one, as programs with traces set it.
const VARIABLE: &str = "TRACEPARENT";
/// Longest value, in bytes. The values of today have 55.
const LONGEST: usize = 256;

/// Gives the span that the calling thread is in.
static SOURCE: OnceLock<fn() -> Option<String>> = OnceLock::new();

thread_local! {
    static CURRENT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`, whose loads on this thread belong to the span `parent`, the value of a header `traceparent` (W3C Trace Context).
/// A daemon that exports traces shows its part of the loads in that span's trace. Without a call it is that of the environment
/// variable `TRACEPARENT`.
pub fn with_trace_parent<T>(parent: &str, work: impl FnOnce() -> T) -> T {
    /// Puts the span before it back, also after a panic.
    struct Restore(Option<String>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(parent.to_owned())));
    work()
}

/// Has loads ask `source` for the span of their thread, as the value of a header `traceparent`. It is asked for each connection
/// to the daemon. Only the first call in a process has an effect.
pub fn set_trace_source(source: fn() -> Option<String>) {
    let _later_ones = SOURCE.set(source);
}

/// The span that requests of this thread to the daemon belong to, as the value of a header `traceparent`: that of
/// [`with_trace_parent`], of the source, or of the environment.
pub fn trace_parent() -> Option<String> {
    let of_thread = CURRENT.with_borrow(Clone::clone);
    let of_thread = of_thread.or_else(|| SOURCE.get().and_then(|source| source()));
    let parent = of_thread.or_else(|| std::env::var(VARIABLE).ok())?;
    (!parent.is_empty() && parent.len() <= LONGEST).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_lasts_as_long_as_its_work() {
        let before = trace_parent();
        let inner = with_trace_parent("a", || with_trace_parent("b", trace_parent));
        assert_eq!(inner.as_deref(), Some("b"));
        let panicked = std::panic::catch_unwind(|| with_trace_parent("c", || panic!("expected")));
        assert!(panicked.is_err());
        assert_eq!(trace_parent(), before);
        assert_eq!(
            with_trace_parent(&"x".repeat(LONGEST + 1), trace_parent),
            None
        );
    }
}
