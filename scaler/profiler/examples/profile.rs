//! `tetris-scaler profile` as a program of its own.

use clap::Parser;
use tetris_scaler_profiler::cli::ProfileArgs;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    profile: ProfileArgs,
}

fn main() -> anyhow::Result<()> {
    Cli::parse().profile.run()
}
