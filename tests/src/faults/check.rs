//! Conditions that hold after a run, with any fault in it.

use std::sync::PoisonError;

use anyhow::{Context, bail, ensure};
use tetris_agent::Agent;
use tetris_store_layout::{CreateOptions, Store};

use super::place::Run;
use super::strace::STARTING;
use super::{Injection, Outcome, Places, Scenario, Traced};
use crate::check::{require_reclaimable, require_tidy};
use crate::model::{fingerprint, fingerprint_of_file};

/// Compares runs in which something failed with the one in which nothing did.
#[derive(Debug)]
pub struct Check {
    clean: Outcome,
    fingerprint: String,
}

impl Check {
    /// With the outcome of the run in which nothing failed.
    pub fn new(places: &Places, clean: &Traced) -> anyhow::Result<Self> {
        let clean = clean.outcome.clone().map_err(anyhow::Error::msg)?;
        ensure!(clean.error.is_none(), "without any fault: {clean:?}");
        let fingerprint = fingerprint_of_file(places.model())?;
        Ok(Self { clean, fingerprint })
    }

    /// Checks what a worker reported, and the store that it left.
    pub fn require(&self, run: &Run, traced: &Traced, injection: &Injection) -> anyhow::Result<()> {
        let outcome = match &traced.outcome {
            Ok(outcome) => outcome,
            Err(died) => bail!("the process died: {died}"),
        };
        self.require_outcome(outcome, run, injection)?;
        require_nothing_beside(run)?;
        self.require_store(run)
            .with_context(|| format!("{outcome:?}"))
    }

    fn require_outcome(
        &self,
        outcome: &Outcome,
        run: &Run,
        injection: &Injection,
    ) -> anyhow::Result<()> {
        if injection.error == "EINTR" {
            ensure!(outcome == &self.clean, "not tried again: {outcome:?}");
        }
        if let Some(error) = &outcome.error {
            let path = |path: &std::path::Path| error.contains(&path.display().to_string());
            let named = path(&run.job.store) || path(&run.job.model);
            ensure!(named || error.contains("`/"), "no path: {error}");
        } else {
            ensure!(outcome.result == self.clean.result, "wrong: {outcome:?}");
        }
        Ok(())
    }

    fn require_store(&self, run: &Run) -> anyhow::Result<()> {
        let _quiet = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let root = &run.job.store;
        // Opens it, or ends what a failed creation began.
        let store = Store::create(root, &CreateOptions::default())?;
        if run.job.scenario == Scenario::Quarantine {
            for entry in store.quarantined()?.objects {
                let name = entry.object.file_name();
                std::fs::remove_file(root.join("quarantine-v1").join(name))?;
            }
        }
        require_tidy(&store, None)?;
        let agent = Agent::open_store(root)?;
        let model = agent.load(&run.job.model)?;
        ensure!(fingerprint(&model)? == self.fingerprint, "wrong bytes");
        ensure!(model.report().bytes_private == 0, "{:?}", model.report());
        require_tidy(&store, None)?;
        drop(model);
        require_reclaimable(&store, None)?;
        Ok(())
    }
}

/// Nothing is left beside what a run was given.
fn require_nothing_beside(run: &Run) -> anyhow::Result<()> {
    let known = [
        "store",
        "log",
        "model.safetensors",
        "model.safetensors.tetris",
    ];
    for entry in std::fs::read_dir(run.dir.path())? {
        let name = entry?.file_name();
        ensure!(
            known.iter().any(|known| name == *known),
            "left: {}",
            name.display()
        );
    }
    Ok(())
}
