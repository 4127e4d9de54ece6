//! Loads published by the node's daemon, against loads that publish themselves.

use std::path::Path;

use anyhow::{Result, ensure};
use tetris_agent::{Agent, CreateOptions, Model, Recognized, Store};
use tetris_density::system::broker::{self, Broker};

use crate::first_load::first_load;
use crate::fixture::Fixture;
use crate::pairs::{Bar, Bench, Unit, seconds};

/// Returns no benchmark without root, which the daemon's read-only view needs.
pub fn benches() -> Vec<Bench> {
    if broker::unavailable().is_some() {
        return Vec::new();
    }
    let against_direct = Bench {
        name: "first-load, brokered",
        baseline_name: "direct",
        unit: Unit::GigabytesPerSecond,
        bar: Bar::AtMost(1.15),
        ours: first_load_brokered,
        baseline: first_load,
    };
    let new_file = Bench {
        name: "new file of a known model, brokered",
        baseline_name: "direct",
        ours: new_file_brokered,
        baseline: new_file,
        ..against_direct
    };
    vec![against_direct, new_file]
}

fn first_load_brokered(fixture: &Fixture) -> Result<f64> {
    let root = fixture.beside_store("brokered");
    Store::create(&root, &CreateOptions::default())?;
    let taken = through_daemon(fixture, &root, |agent| {
        expect(agent.load(&fixture.file)?, Recognized::Brokered)
    })?;
    std::fs::remove_dir_all(&root)?;
    Ok(taken)
}

fn new_file_brokered(fixture: &Fixture) -> Result<f64> {
    let file = fixture.work().join("copy.safetensors");
    std::fs::copy(&fixture.file, &file)?;
    let root = fixture.store()?.root().to_path_buf();
    let taken = through_daemon(fixture, &root, |agent| {
        expect(agent.load(&file)?, Recognized::Brokered)
    })?;
    std::fs::remove_file(&file)?;
    Ok(taken)
}

fn new_file(fixture: &Fixture) -> Result<f64> {
    let file = fixture.work().join("copy.safetensors");
    std::fs::copy(&fixture.file, &file)?;
    let taken = seconds(|| expect(fixture.agent.load(&file)?, Recognized::ByHashing))?;
    std::fs::remove_file(&file)?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}

/// Time of a load through a running daemon.
fn through_daemon(
    fixture: &Fixture,
    root: &Path,
    load: impl FnOnce(&Agent) -> Result<Model>,
) -> Result<f64> {
    let program = Path::new(env!("CARGO_BIN_EXE_density"));
    let broker = Broker::start(program, root, fixture.work().join("view"))?;
    let agent = Agent::open_store(broker.view())?;
    let taken = seconds(|| load(&agent))?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}

fn expect(model: Model, way: Recognized) -> Result<Model> {
    let report = model.report();
    ensure!(
        report.recognized == [way] && report.bytes_private == 0,
        "not loaded as meant: {report:?}"
    );
    Ok(model)
}
