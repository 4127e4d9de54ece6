//! A pod that loads a fresh model at an interval, checks every byte, and lets go of it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tetris_agent::{Agent, LoadOptions, Model};

use crate::line::{End, Line};
use crate::model;

/// Bytes of each model.
pub const BYTES: usize = 2 << 20;

/// Loads until the end, a model every `interval`, from files in `scratch`.
///
/// The first model stays mapped, and is compared once more at the end.
///
/// # Errors
/// When a file cannot be written, or a load fails.
pub fn run(store: &Path, scratch: &Path, interval: Duration, end: &End) -> Result<()> {
    let mut kept = None;
    for load in 1.. {
        let begun = Instant::now();
        let seed = u64::from(std::process::id()) << 32 | load;
        let path = scratch.join(format!("{load}.safetensors"));
        model::write(&path, seed, BYTES)?;
        let loaded = load_file(store, &path, load)?;
        require_bytes(&loaded, seed)?;
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        kept.get_or_insert((loaded, seed));
        if end.wait(interval.saturating_sub(begun.elapsed())) {
            break;
        }
    }
    if let Some((model, seed)) = kept {
        require_bytes(&model, seed)?;
    }
    Ok(())
}

fn load_file(store: &Path, path: &Path, load: u64) -> Result<Model> {
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let begun = Instant::now();
    let model = Agent::open_store(store)?.load_with(path, &options)?;
    let report = model.report();
    let names = report.recognized.iter().map(|recognized| recognized.name());
    Line::Load {
        load,
        recognized: names.collect::<Vec<_>>().join(","),
        private: report.bytes_private + report.bytes_unshared,
        reason: report.private_reason.clone(),
        took_us: begun.elapsed().as_micros() as u64,
    }
    .say()?;
    Ok(model)
}

/// Reports it if a tensor is not what the file has.
fn require_bytes(model: &Model, seed: u64) -> Result<()> {
    let tensor = model
        .tensor(model::TENSOR)
        .ok_or_else(|| anyhow!("the model has no tensor"))?;
    if tensor.bytes() != model::bytes(seed, BYTES) {
        Line::Wrong {
            attack: "victim".to_owned(),
            what: format!("wrong bytes of model {seed:x}"),
        }
        .say()?;
    }
    Ok(())
}
