//! Files of traces: reading, limits, samples and runs.
//!
//! The files in `tests/data` are made, in the schemas of Azure Functions 2019 and 2021 and of BurstGPT; no value comes
//! from the published files. `azure-functions-2019.csv` has 10 minutes in place of 1440. Rows of
//! `azure-functions-2021.csv` are out of order, and one invocation began before the file's zero. `burstgpt-newer.csv` has
//! the two columns of newer files, and begins on the 226th day.

mod reading;
mod sampling;
mod wrong_files;

use std::path::{Path, PathBuf};

use tetris_simulation::traces::{Limits, RecordedTrace, TraceError, Window};

/// Path of a made file.
fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Reads `seconds` seconds of a made file.
fn read(name: &str, start_minutes: u64, seconds: u64) -> RecordedTrace {
    let window = Window::new(start_minutes, seconds);
    RecordedTrace::read(&made(name), window, &Limits::default()).unwrap()
}

/// Reads a minute of `text`.
fn read_text(text: impl AsRef<[u8]>, limits: &Limits) -> Result<RecordedTrace, TraceError> {
    let window = Window::new(0, 60);
    RecordedTrace::read_from(Path::new("made.csv"), text.as_ref(), window, limits)
}
