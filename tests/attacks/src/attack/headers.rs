//! Files with headers of the largest size that the daemon reads, of sizes beside it, and far above it, many at once.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::Rounds;
use crate::model;

/// Longest header that the daemon reads, in bytes.
const LARGEST: usize = 16 << 20;
/// Longest header that shares the daemon's memory with others, in bytes.
const SHARED: usize = 1 << 20;
/// Room for an entry, in bytes.
const ENTRY: usize = 80;
/// Length of a header above that of every parser, in bytes.
const FAR_ABOVE: u64 = 100_000_001;

/// Headers of a round, with their lengths in bytes.
const HEADERS: [(&str, Content, usize); 6] = [
    ("largest", Content::Tensors, LARGEST),
    ("metadata", Content::Metadata, LARGEST),
    ("above", Content::Tensors, LARGEST + ENTRY),
    ("shared", Content::Tensors, SHARED),
    ("above-shared", Content::Tensors, SHARED + ENTRY),
    ("half", Content::Tensors, LARGEST / 2),
];

/// Entries that a header is full of.
#[derive(Clone, Copy)]
enum Content {
    /// Tensors of a byte each.
    Tensors,
    /// Pairs of metadata, of which each takes the least text.
    Metadata,
}

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    rounds.repeat(Duration::from_millis(100), |round, tally| {
        let far_above = rounds.scratch("far-above");
        let file = File::create(&far_above)?;
        file.write_all_at(&FAR_ABOVE.to_le_bytes(), 0)?;
        file.set_len(FAR_ABOVE * 2)?;
        let mut files = vec![("far-above", far_above)];
        for (name, content, len) in HEADERS {
            let path = rounds.scratch(name);
            write(&path, &header(content, len, round))?;
            files.push((name, path));
        }
        // One wait for all: the last one is the youngest.
        files
            .last()
            .map_or(Ok(()), |(_, path)| model::settle(path))?;
        std::thread::scope(|scope| -> Result<()> {
            let pass = |(name, path)| (name, scope.spawn(move || rounds.pass(path)));
            let passing: Vec<_> = files
                .iter()
                .map(|(name, path)| pass((name, path)))
                .collect();
            for (name, passed) in passing {
                match passed.join() {
                    Ok(outcome) => tally.count(format!("{name}-{}", outcome?)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(())
        })?;
        for (_, path) in files {
            std::fs::remove_file(path)?;
        }
        Ok(())
    })
}

/// A header of exactly `len` bytes, which spaces fill up. Its entries have names that follow from the round.
fn header(content: Content, len: usize, round: u64) -> (String, u64) {
    let mut text = String::with_capacity(len);
    let mut tensors = 0_u64;
    match content {
        Content::Tensors => {
            text.push('{');
            while text.len() < len - ENTRY {
                let end = tensors + 1;
                let _infallible = write!(
                    text,
                    r#""{round:x}{tensors:x}":{{"dtype":"U8","shape":[],"data_offsets":[{tensors},{end}]}},"#
                );
                tensors = end;
            }
            text.pop();
        }
        Content::Metadata => {
            let tensor = r#"{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"__metadata__":{"#;
            text.push_str(tensor);
            tensors = 1;
            let mut number = round << 24;
            while text.len() < len - ENTRY {
                let _infallible = write!(text, r#""{number:x}":"","#);
                number += 1;
            }
            text.pop();
            text.push('}');
        }
    }
    while text.len() < len - 1 {
        text.push(' ');
    }
    text.push('}');
    (text, tensors)
}

/// Writes a file of a header and so many bytes of tensors, which are holes.
fn write(path: &Path, (header, tensors): &(String, u64)) -> Result<()> {
    let file = File::create(path)?;
    let len = header.len() as u64;
    file.write_all_at(&len.to_le_bytes(), 0)?;
    file.write_all_at(header.as_bytes(), 8)?;
    Ok(file.set_len(8 + len + tensors)?)
}
