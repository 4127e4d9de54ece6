//! Descriptors of every kind, in place of a model file or of memory, and where none is expected.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tetris_agent::ManifestKind;
use tetris_store_layout::ObjectRef;
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
    // No bytes make this object.
    let object = ObjectRef {
        len: 4096,
        ..ObjectRef::of(b"lie")
    };
    let publish = Message::Publish { object }.encode();
    let arguments = [
        store,
        scratch,
        &hex(&greeting()),
        &hex(&ingest),
        &hex(&publish),
    ];
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
