//! Micro-benchmarks of the store and the agent, each beside its baseline in the same run.
//!
//! `cargo bench -p tetris-density`, or `cargo bench -p tetris-density -- first-load holders` for
//! some of them; `--rounds N` changes the number of rounds (7), `--json FILE` writes the results to a
//! file too. Ours and the baseline take turns,
//! and the ratio is the median over neighboring rounds, so that drift of the machine's speed favors
//! neither. The bars are those of the design; a missed bar fails nothing.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod attach;
mod brokered;
mod first_load;
mod fixture;
mod hashing;
mod holders;
mod pairs;

use anyhow::{Context, Result};

use fixture::Fixture;
use pairs::{Bench, Line};

fn main() -> Result<()> {
    let mut rounds = 7;
    let mut only = Vec::new();
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo passes this to every benchmark.
            "--bench" => {}
            "--rounds" => rounds = args.next().unwrap_or_default().parse()?,
            "--json" => json = Some(args.next().context("--json needs a file")?),
            name => only.push(name.to_owned()),
        }
    }
    let fixture = Fixture::new()?;
    println!("{}", fixture.description()?);
    println!("{}", Line::header());
    let benches: Vec<Bench> = [
        attach::benches(),
        first_load::benches(),
        brokered::benches(),
        hashing::benches(),
        holders::benches(),
    ]
    .concat();
    let mut results = Vec::new();
    for bench in &benches {
        if only.is_empty() || only.iter().any(|name| bench.name.contains(name)) {
            let line = bench.run(&fixture, rounds)?;
            println!("{line}");
            results.push(line.json());
        }
    }
    if let Some(path) = json {
        let report = serde_json::json!({
            "fixture": fixture.description()?,
            "rounds": rounds,
            "benches": results,
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}
