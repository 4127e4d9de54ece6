//! Progress of long work, on stderr and only where that is a terminal.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use tetris_agent::ProgressFn;

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
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self::with_template(what, total, template)
    }

    /// A bar for a search among processes, whose number is said later.
    pub(crate) fn of_processes(what: &str) -> Self {
        Self::with_template(what, 0, "{msg} [{bar:30}] {pos}/{len} processes")
    }

    fn with_template(what: &str, total: u64, template: &str) -> Self {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self {
            bar: Arc::new(Cleared(bar)),
        }
    }

    /// Counts `bytes` as done.
    pub(crate) fn add(&self, bytes: u64) {
        self.bar.0.inc(bytes);
    }

    /// Says that `done` of `total` are done.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.0.set_length(total);
        self.bar.0.set_position(done);
    }

    /// The callback for the progress of a load; the bar shows one file of the model at a time.
    pub(crate) fn of_load(what: &str, path: &Path) -> ProgressFn {
        let name = path.file_name().unwrap_or(path.as_os_str()).display();
        let bar = Self::new(&format!("{what} {name}"), 0);
        ProgressFn::new(move |progress| {
            bar.set(progress.done, progress.total);
        })
    }
}
