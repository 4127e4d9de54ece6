//! Room: models that stay mapped, and sparse files, which cost a pod nothing and the daemon pages.

use std::time::Duration;

use anyhow::Result;
use tetris_agent::{Agent, LoadOptions, Model};

use super::Rounds;
use crate::model;

const MODEL_BYTES: usize = 6 << 20;
/// Models mapped at a time. The room of a store ends before.
const MODELS: usize = 200;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let size = nix::sys::statvfs::statvfs(&rounds.context.store)?;
    let capacity = size.blocks() * size.fragment_size();
    let mut models: Vec<Model> = Vec::new();
    rounds.repeat(Duration::from_millis(100), |round, tally| {
        let path = rounds.scratch("hoarded");
        model::write(&path, round, MODEL_BYTES)?;
        let model = load(rounds, &path)?;
        let is_shared = model.report().bytes_private == 0;
        tally.count(if is_shared { "mapped" } else { "private" });
        // A private one costs the attacker alone.
        if is_shared && models.len() < MODELS {
            models.push(model);
        }
        tally.add("held", models.len() as u64);
        for share in [16, 3, 1] {
            let path = rounds.scratch("sparse");
            model::write_sparse(&path, round * 16 + share, capacity / share)?;
            // Passed, not loaded: a private copy would be private memory of the attacker.
            tally.count(format!("sparse-{}", rounds.pass(&path)?));
            std::fs::remove_file(&path)?;
        }
        std::fs::remove_file(&path)?;
        Ok(())
    })
}

fn load(rounds: &Rounds<'_>, path: &std::path::Path) -> Result<Model> {
    let options = LoadOptions::default().with_min_shared_bytes(0);
    Ok(Agent::open_store(&rounds.context.store)?.load_with(path, &options)?)
}
