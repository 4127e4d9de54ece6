//! Progress on standard error: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::session::Event;

/// Shows the progress of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(settings: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(settings);
            if let Ok(style) =
                ProgressStyle::with_template("[{bar:20}] {pos}/{len} {elapsed} {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(500));
            bar
        });
        Self { bar }
    }

    pub(super) fn tell(&mut self, event: &Event) {
        let Some(bar) = &self.bar else {
            // Standard error may be closed: the profile matters more than the line.
            let _unread = writeln!(stderr().lock(), "{event}");
            return;
        };
        match event {
            Event::FirstStart | Event::Doing { .. } => bar.set_message(event.to_string()),
            Event::Measuring { place, .. } => {
                bar.set_position(*place as u64);
                bar.set_message(event.to_string());
            }
            _ => bar.println(event.to_string()),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
