//! The command `scaler-simulate`: scaling and placement policies on the paper's applications.

mod cli;

use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use tetris_scaler_simulator::compare;

use cli::{Args, html, text};

fn main() -> Result<()> {
    let args = Args::parse();
    let start = Instant::now();
    let mut clock = || start.elapsed().as_micros() as u64;
    let comparison = compare(args.grid(), &mut clock).context("simulating")?;
    args.report.write(&comparison, text::report, html::page)
}
