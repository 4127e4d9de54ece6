//! Descriptors of every kind, in place of a model file and where none is expected.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tetris_agent::ManifestKind;
use tetris_wire::daemon::Message;

use super::Rounds;
use super::python::Python;
use crate::client::greeting;

/// Passes each kind once in a round, and prints a line of results for it.
const PROGRAM: &str = include_str!("descriptors.py");

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let store = rounds.context.store.to_str().context("a path in UTF-8")?;
    let scratch = rounds.context.scratch.to_str().context("a path in UTF-8")?;
    let kind = ManifestKind::File;
    let ingest = Message::Ingest { kind }.encode();
    let arguments = [store, scratch, &hex(&greeting()), &hex(&ingest)];
    let mut program = Python::start(PROGRAM, arguments)?;
    rounds.repeat(Duration::from_millis(500), |_, tally| {
        for result in program.line()?.split(' ') {
            tally.count(result);
        }
        Ok(())
    })
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}
