//! Progress of long work, on stderr and only where that is a terminal.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use tetris_agent::ProgressFn;

use super::table::cut_begin;

/// Longest name of a file, so that the line fits a terminal of 80 columns.
const NAME: usize = 24;

/// A bar that shows bytes. It is drawn only on a terminal, and gone when the work is done.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    bar: Arc<Cleared>,
}

#[derive(Debug)]
struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Bar {
    /// A bar for `what`, of `total` bytes.
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let template = "{msg} [{wide_bar}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self::with_template(what, total, template)
    }

    /// A bar for a search among processes, whose number is said later.
    pub(crate) fn of_processes(what: &str) -> Self {
        Self::with_template(what, 0, "{msg} [{wide_bar}] {pos}/{len} processes")
    }

    fn with_template(what: &str, total: u64, template: &str) -> Self {
        // Nothing is drawn before the work begins: its size is not known, or it is known to be nothing.
        let mut bar = ProgressBar::new(total).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar = bar.with_style(style.progress_chars("=> "));
        }
        Self {
            bar: Arc::new(Cleared(bar)),
        }
    }

    /// Counts `bytes` as done.
    pub(crate) fn add(&self, bytes: u64) {
        self.bar.0.inc(bytes);
    }

    /// Reports that `done` of `total` are done.
    pub(crate) fn set(&self, done: u64, total: u64) {
        // A model that is known has nothing to read.
        if total > 0 {
            self.bar.0.set_length(total);
            self.bar.0.set_position(done);
        }
    }

    /// The callback for the progress of a load; the bar shows one file of the model at a time.
    pub(crate) fn of_load(what: &str, path: &Path) -> ProgressFn {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let bar = Self::new(&format!("{what} {}", cut_begin(&name, NAME)), 0);
        ProgressFn::new(move |progress| {
            bar.set(progress.done, progress.total);
        })
    }
}
