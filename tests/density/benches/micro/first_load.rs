//! The first load of a file, against copying it into the same tmpfs.

use std::process::Command;

use anyhow::{Result, ensure};
use tetris_agent::{Agent, CreateOptions, Recognized, Store};

use crate::fixture::Fixture;
use crate::pairs::{Bar, Bench, Unit, seconds};

pub fn benches() -> Vec<Bench> {
    vec![Bench {
        name: "first-load (read, hash, publish)",
        baseline_name: "cp into the same tmpfs",
        unit: Unit::GigabytesPerSecond,
        bar: Bar::SpeedAtLeast(0.8),
        ours: first_load,
        baseline: copy,
    }]
}

pub fn first_load(fixture: &Fixture) -> Result<f64> {
    let root = fixture.beside_store("first-load");
    let agent = Agent::with_store(Store::create(&root, &CreateOptions::default())?);
    let taken = seconds(|| {
        let model = agent.load(&fixture.file)?;
        ensure!(
            model.report().recognized == [Recognized::ByHashing]
                && model.report().bytes_shared == 0,
            "the store was not new: {:?}",
            model.report()
        );
        Ok(model)
    })?;
    std::fs::remove_dir_all(&root)?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}

fn copy(fixture: &Fixture) -> Result<f64> {
    let target = fixture.beside_store("copy");
    let taken = seconds(|| {
        let status = Command::new("cp")
            .arg(&fixture.file)
            .arg(&target)
            .status()?;
        ensure!(status.success(), "cp failed: {status}");
        Ok(())
    })?;
    std::fs::remove_file(&target)?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}
