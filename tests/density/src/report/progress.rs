//! What is said on standard error while it runs: a bar on a terminal, a line per step elsewhere.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Messages for people; never data.
pub struct Progress {
    bar: Option<ProgressBar>,
    done: u64,
    steps: u64,
}

impl Progress {
    /// For a run of so many steps.
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

    /// A step begins.
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

    /// Something happens within a step; shown on a terminal only.
    pub fn detail(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// A message that stays.
    pub fn say(&self, message: &str) {
        self.aside(|| line(message));
    }

    /// Runs something that writes to the terminal, with the bar out of the way.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(message: &str) {
    // Losing a message is no reason to lose the run.
    let _ = writeln!(io::stderr(), "{message}");
}
