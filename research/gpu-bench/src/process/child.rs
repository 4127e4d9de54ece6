//! The child's side of the communication.

use std::io::{self, BufRead, Write};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Said;
use crate::BenchError;

/// The process that started this one.
#[derive(Debug, Default)]
pub struct Parent(());

impl Parent {
    /// Sends a result.
    pub fn tell(&mut self, result: &impl Serialize) -> Result<(), BenchError> {
        let value =
            serde_json::to_value(result).map_err(|error| BenchError::Bug(error.to_string()))?;
        say(&Said::Result(value))
    }

    /// Waits until the parent lets this process continue. Returns false if the parent has ended, or
    /// ends this process.
    pub fn wait(&mut self) -> bool {
        matches!(io::stdin().lock().read_line(&mut String::new()), Ok(bytes) if bytes > 0)
    }
}

fn say(said: &Said) -> Result<(), BenchError> {
    let line = serde_json::to_string(said).map_err(|error| BenchError::Bug(error.to_string()))?;
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(BenchError::io("write to", "the parent".as_ref()))
}

/// Reads the order on standard input; `None` if the parent has ended.
pub(crate) fn order<O: DeserializeOwned>() -> Result<Option<O>, BenchError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if !matches!(read, Ok(bytes) if bytes > 0) {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .map(Some)
        .map_err(|error| BenchError::Bug(format!("no order of a parent: {error}")))
}

/// Has this process killed when the process `parent` ends. Returns false if that has ended already.
pub(crate) fn end_with(parent: u32) -> Result<bool, BenchError> {
    let killed = set_parent_process_death_signal(Some(Signal::KILL));
    killed.map_err(BenchError::io(
        "ask to be killed with",
        "the parent".as_ref(),
    ))?;
    // The parent may have ended before the call.
    let ppid = getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned());
    Ok(ppid == Some(parent))
}

/// Sends an error as the result.
pub(crate) fn tell_error(error: &BenchError) -> Result<(), BenchError> {
    say(&Said::Error(error.to_string()))
}
