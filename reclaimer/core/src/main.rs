//! The command `reclaimer-replay`: compares reclaim policies and finds the right default.

mod cli;

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::Parser;

use cli::{Args, Format, html, text};
use tetris_reclaimer_core::replay::compare::compare;

fn main() -> Result<()> {
    let args = Args::parse();
    let comparison = compare(args.grid()).context("comparing the policies")?;
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
