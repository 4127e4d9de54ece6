//! TIDAL's evaluation on the simulated device, with the paper's figures beside ours.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report goes there"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tetris_gpu_bench::tidal::reproduce;

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Reproduce TIDAL's figures 17, 18 and 20, table 3 and equation (1) on the simulated device
#[derive(Debug, Parser)]
#[command(name = "reproduce-tidal", max_term_width = 100)]
struct Cli {
    /// Number of invocations for each figure, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Directory on a tmpfs; the run creates directories in it and removes them at its end
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    store_dir: PathBuf,
    /// Format of the report
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match reproduce(&cli.store_dir, cli.rounds) {
        Ok(report) if cli.format == Format::Json => println!("{}", serde_json::json!(report)),
        Ok(report) => print!("{}", report.text()),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
