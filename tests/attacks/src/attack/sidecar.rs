//! A sidecar beside each model of another user, in whose directory the attacker may create files. It names the
//! manifest of that user's model before, whose objects are in that user's store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tetris_agent::{Agent, LoadOptions, ManifestKind, sidecar};

use super::Rounds;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let models = rounds.context.models.as_deref();
    let models = models.context("--models names the other user's directory")?;
    let before = rounds.scratch("before.safetensors");
    let mut known = BTreeSet::new();
    rounds.repeat(Duration::from_millis(20), |_, tally| {
        for path in files(models)? {
            if !known.insert(path.clone()) {
                continue;
            }
            let written = plant(&path, &before);
            tally.count(if written.is_ok() {
                "planted"
            } else {
                "too-late"
            });
            // It is gone soon.
            let _copied = std::fs::copy(&path, &before);
        }
        Ok(())
    })
}

fn files(models: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(models).with_context(|| models.display().to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|end| end == "safetensors"))
        .collect())
}

/// Writes a sidecar that claims that `path` has the bytes of `other`.
fn plant(path: &Path, other: &Path) -> Result<()> {
    let agent = Agent::without_store();
    let (kind, options) = (ManifestKind::Safetensors, LoadOptions::default());
    let manifests = agent.manifests(other, kind, &options)?;
    let (_, manifest) = manifests.first().context("no manifest")?;
    sidecar::write(path, manifest)?;
    Ok(())
}
