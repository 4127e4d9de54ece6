//! Progress on standard error: a bar on a terminal, a line per step elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Number of units of the bar: its position is a share of the run's cost.
const UNITS: f64 = 1000.0;
/// Share of the run's cost from which the time left is estimated.
const ESTIMATED_FROM: f64 = 0.02;

/// Messages for people; never data.
pub struct Progress {
    bar: Option<ProgressBar>,
    begin: Instant,
    costs: Vec<f64>,
    begun: usize,
}

impl Progress {
    /// Creates the progress of a run from the estimated costs of its steps, in their order. Only
    /// the ratios of the costs matter.
    pub fn new(costs: Vec<f64>) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let template = "{bar:24} {percent:>3}% {elapsed}{prefix} {wide_msg}";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(UNITS as u64).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self {
            bar,
            begin: Instant::now(),
            costs,
            begun: 0,
        }
    }

    /// Starts a step.
    pub fn step(&mut self, what: &str) {
        self.begun += 1;
        let left = self.left();
        match &self.bar {
            Some(bar) => {
                bar.set_position((self.share_done() * UNITS) as u64);
                bar.set_message(what.to_owned());
                bar.set_prefix(left);
            }
            None => line(&format!(
                "[{}/{}] {what}{left}",
                self.begun,
                self.costs.len()
            )),
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

    /// Share of the costs of the steps before the present one.
    fn share_done(&self) -> f64 {
        let done: f64 = self.costs.iter().take(self.begun.max(1) - 1).sum();
        done / self.costs.iter().sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// Formats the time left, after a comma; empty before it can be estimated.
    fn left(&self) -> String {
        match remaining(self.begin.elapsed(), self.share_done()) {
            Some(left) => format!(", {}", about(left)),
            None => String::new(),
        }
    }
}

/// Time left if the rest takes as long for its cost as the first `share` took; `None` if too little
/// is done.
fn remaining(elapsed: Duration, share: f64) -> Option<Duration> {
    let known = (ESTIMATED_FROM..=1.0).contains(&share);
    known.then(|| elapsed.mul_f64((1.0 - share) / share))
}

/// Formats a duration that is only estimated.
fn about(left: Duration) -> String {
    match left.as_secs().div_ceil(60) {
        0 | 1 => "about a minute left".to_owned(),
        minutes if minutes < 90 => format!("about {minutes} min left"),
        minutes => format!("about {:.1} h left", minutes as f64 / 60.0),
    }
}

fn line(message: &str) {
    // A lost message must not end the run.
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_part_that_is_done() {
        let minute = Duration::from_mins(1);
        assert_eq!(remaining(minute, 0.0), None);
        assert_eq!(remaining(minute, 0.01), None);
        assert_eq!(remaining(minute, 0.25), Some(3 * minute));
        assert_eq!(remaining(minute, 1.0), Some(Duration::ZERO));
    }

    #[test]
    fn estimates_are_round() {
        assert_eq!(about(Duration::from_secs(5)), "about a minute left");
        assert_eq!(about(Duration::from_secs(150)), "about 3 min left");
        assert_eq!(about(Duration::from_hours(2)), "about 2.0 h left");
    }

    #[test]
    fn done_is_the_cost_of_the_steps_before() {
        let mut progress = Progress::new(vec![1.0, 3.0]);
        assert!(progress.share_done().abs() < 1e-9);
        progress.begun = 2;
        assert!((progress.share_done() - 0.25).abs() < 1e-9);
    }
}
