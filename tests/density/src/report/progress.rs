//! Progress on standard error: a bar on a terminal, a line per step elsewhere.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Messages for people; never data.
pub struct Progress {
    bar: Option<ProgressBar>,
    done: u64,
    steps: u64,
}

impl Progress {
    /// Creates the progress of a run with `steps` steps.
    pub fn new(steps: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(steps).with_style(style);
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
            bar
        });
        Self {
            bar,
            done: 0,
            steps,
        }
    }

    /// Starts a step.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done - 1);
                bar.set_message(what.to_owned());
            }
            None => line(&format!("[{}/{}] {what}", self.done, self.steps)),
        }
    }

    /// Shows a detail of a step, on a terminal only.
    pub fn detail(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// Prints a permanent message.
    pub fn say(&self, message: &str) {
        self.aside(|| line(message));
    }

    /// Runs a function that writes to the terminal, with the bar hidden.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(message: &str) {
    // A lost message must not end the run.
    let _ = writeln!(io::stderr(), "{message}");
}
