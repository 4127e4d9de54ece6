//! Events about what a dispatch decided.

use tracing::Span;

use crate::candidate::Candidate;
use crate::clock::micros;
use crate::function::{Function, Grant};
use crate::traces::is_left_out;

/// Largest number of candidates that an event names.
const SHOWN: usize = 16;

/// Servers of a function as they are before a dispatch, at most [`SHOWN`], for the event of its decision. Nothing
/// without a subscriber at level `debug`, or if the trace of the request's `span` is left out.
pub(crate) fn candidates(function: &Function, span: &Span) -> Option<String> {
    let is_shown = tracing::enabled!(tracing::Level::DEBUG) && !is_left_out(span);
    is_shown.then(|| {
        let all = function.candidates();
        let shown = all.iter().take(SHOWN).map(Candidate::to_string);
        let shown = shown.collect::<Vec<_>>().join(", ");
        match all.len().saturating_sub(SHOWN) {
            0 => shown,
            more => format!("{shown}, and {more} more"),
        }
    })
}

/// Logs the decision of a dispatch.
pub(crate) fn dispatched(candidates: Option<&str>, grant: &Grant) {
    if let Some(candidates) = candidates {
        let (instance, wait_us) = (&grant.endpoint().name, micros(grant.waited()));
        tracing::debug!(instance, wait_us, candidates, "dispatched");
    }
}
