//! The command `tetris-scaler profile` as a separate program.

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
