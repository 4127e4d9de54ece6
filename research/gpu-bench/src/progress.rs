//! Progress of a run, on standard error.

/// Prints the current step.
#[expect(clippy::print_stderr, reason = "progress of a command")]
pub(crate) fn say(step: &str) {
    eprintln!("{step}");
}
