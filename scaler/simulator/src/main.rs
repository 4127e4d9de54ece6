//! The command `scaler-simulate`: scaling and placement policies on the paper's applications.

mod cli;

use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use tetris_scaler_simulator::compare;

use cli::{Args, Format, html, text};

fn main() -> Result<()> {
    let args = Args::parse();
    let start = Instant::now();
    let mut clock = || start.elapsed().as_micros() as u64;
    let comparison = compare(args.grid(), &mut clock).context("simulating")?;
    let report = match args.format {
        Format::Text => text::report(&comparison),
        Format::Json => serde_json::to_string_pretty(&comparison)? + "\n",
    };
    io::stdout()
        .lock()
        .write_all(report.as_bytes())
        .context("writing the report")?;
    if let Some(path) = &args.html {
        fs::write(path, html::page(&comparison))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
