//! The command `reclaimer-replay`: compares reclaim policies and finds the right default.

mod cli;

use anyhow::{Context, Result};
use clap::Parser;
use tetris_reclaimer_replay::compare::compare;

use cli::{Args, html, text};

fn main() -> Result<()> {
    let args = Args::parse();
    let comparison = compare(args.grid()?).context("comparing the policies")?;
    args.report.write(&comparison, text::report, html::page)
}
