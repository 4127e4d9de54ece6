//! Records without objects worth their size: files of metadata alone, files of much metadata with one byte of
//! tensors, and many files of one content, each of which gets an identity.

use std::time::Duration;

use anyhow::Result;

use super::Rounds;
use crate::model;

const METADATA: usize = 4 << 20;
const FILES: u64 = 8;
const COPIES: u64 = 40;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let copied = model::bytes(1, 8192);
    rounds.repeat(Duration::from_secs(1), |round, tally| {
        for number in 0..FILES {
            let text = format!("{round:08}-{number:08} ").repeat(METADATA / 18);
            let alone = model::metadata_alone(&text);
            let one_byte = [model::header(1, &text).as_slice(), &[7]].concat();
            for (name, bytes) in [("metadata", alone), ("one-byte", one_byte)] {
                let path = rounds.scratch(name);
                std::fs::write(&path, bytes)?;
                model::settle(&path)?;
                tally.count(format!("{name}-{}", rounds.pass(&path)?));
                std::fs::remove_file(&path)?;
            }
        }
        let paths: Vec<_> = (0..COPIES)
            .map(|number| rounds.scratch(&format!("copy-{round}-{number}")))
            .collect();
        let content = [model::header(8192, "").as_slice(), &copied].concat();
        for path in &paths {
            std::fs::write(path, &content)?;
        }
        // One wait for all: the last one is the youngest.
        paths.last().map_or(Ok(()), |path| model::settle(path))?;
        for path in &paths {
            tally.count(format!("copy-{}", rounds.pass(path)?));
            std::fs::remove_file(path)?;
        }
        Ok(())
    })
}
