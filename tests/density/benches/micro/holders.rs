//! Counting holders: 10,000 objects of which 1,000 are mapped.

use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use tetris_store_layout::{Access, CreateOptions, Holders, Mapping, Store};

use crate::fixture::Fixture;
use crate::pairs::{Bar, Bench, Unit, seconds};

const OBJECTS: u32 = 10_000;
const MAPPED: u32 = 1_000;

pub fn benches() -> Vec<Bench> {
    vec![Bench {
        name: "holders (10,000 objects, 1,000 held)",
        baseline_name: "reading /proc/locks",
        unit: Unit::Milliseconds,
        bar: Bar::None,
        ours: count_holders,
        baseline: read_locks,
    }]
}

struct Populated {
    store: Store,
    _held: Vec<Mapping>,
}

fn populated(fixture: &Fixture) -> Result<&'static Populated> {
    static POPULATED: OnceLock<Populated> = OnceLock::new();
    if let Some(populated) = POPULATED.get() {
        return Ok(populated);
    }
    let store = Store::create(fixture.beside_store("holders"), &CreateOptions::default())?;
    let mut references = Vec::new();
    for number in 0..OBJECTS {
        let published = store.publish(&number.to_le_bytes(), Access::ReadOnly)?;
        if number % (OBJECTS / MAPPED) == 0 {
            references.push(published.mapping);
        }
    }
    let made = Populated {
        store,
        _held: references,
    };
    Ok(POPULATED.get_or_init(|| made))
}

fn count_holders(fixture: &Fixture) -> Result<f64> {
    let populated = populated(fixture)?;
    seconds(|| {
        let objects = populated.store.objects()?.objects;
        let holders = Holders::read()?;
        let total: u64 = objects.iter().map(|entry| holders.of(entry)).sum();
        ensure!(total == u64::from(MAPPED), "{total} holders counted");
        Ok(())
    })
}

fn read_locks(_: &Fixture) -> Result<f64> {
    seconds(|| std::fs::read("/proc/locks").context("cannot read /proc/locks"))
}
