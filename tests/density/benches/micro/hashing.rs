//! The hashing pass of a file whose tensors are in the store: the cost of an own copy of a known
//! model.

use std::fs::File;
use std::io::Read;

use anyhow::{Result, ensure};
use tetris_agent::LoadOptions;

use crate::fixture::Fixture;
use crate::pairs::{Bar, Bench, Unit, seconds};

pub fn benches() -> Vec<Bench> {
    vec![Bench {
        name: "hashing (own copy of a known model)",
        baseline_name: "read + BLAKE3 on one core",
        unit: Unit::GigabytesPerSecond,
        bar: Bar::None,
        ours: hashing_pass,
        baseline: one_core,
    }]
}

fn hashing_pass(fixture: &Fixture) -> Result<f64> {
    let options = LoadOptions::default().with_ignore_identity(true);
    let taken = seconds(|| {
        let model = fixture.agent.load_with(&fixture.file, &options)?;
        ensure!(model.report().bytes_new == 0, "the model was not known");
        Ok(model)
    })?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}

fn one_core(fixture: &Fixture) -> Result<f64> {
    let taken = seconds(|| {
        let mut file = File::open(&fixture.file)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finalize()),
                len => hasher.update(&buffer[..len]),
            };
        }
    })?;
    Ok(taken / (fixture.bytes as f64 / 1e9))
}
