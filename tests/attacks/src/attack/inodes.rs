//! Inodes: tiny files, each of which gets an object, a manifest, an identity and a path.

use std::time::Duration;

use anyhow::Result;
use tetris_agent::{Agent, LoadOptions, Model};

use super::Rounds;
use crate::model;

const FILES: u64 = 100;
/// Models that stay mapped.
const HELD: usize = 2000;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let mut models: Vec<Model> = Vec::new();
    rounds.repeat(Duration::from_millis(500), |round, tally| {
        let paths: Vec<_> = (0..FILES)
            .map(|number| rounds.scratch(&format!("tiny-{number}")))
            .collect();
        for (number, path) in (0..).zip(&paths) {
            let seed = round * FILES + number;
            let content = [model::header(512, ""), model::bytes(seed, 512)].concat();
            std::fs::write(path, content)?;
        }
        paths.last().map_or(Ok(()), |path| model::settle(path))?;
        let agent = Agent::open_store(&rounds.context.store)?;
        for path in &paths {
            let model = agent.load_with(path, &options)?;
            let is_shared = model.report().bytes_private == 0;
            tally.count(if is_shared { "shared" } else { "private" });
            if is_shared && models.len() < HELD {
                models.push(model);
            }
            std::fs::remove_file(path)?;
        }
        tally.add("held", models.len() as u64);
        Ok(())
    })
}
