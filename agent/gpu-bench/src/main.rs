//! The benchmark as a program of its own, for its tests: what `tetris gpu-bench` runs.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report goes there"
)]

use std::process::ExitCode;

use clap::Parser;
use tetris_gpu_bench::{BenchError, GpuBenchArgs, run};

/// What the GPU mirror costs and saves, measured on a device.
#[derive(Debug, Parser)]
#[command(name = "gpu-bench", max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: GpuBenchArgs,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match measure(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cli: &Cli) -> Result<(), BenchError> {
    let Some(report) = run(&cli.args, &[])? else {
        return Ok(());
    };
    if cli.json {
        println!("{}", serde_json::json!(report));
    } else {
        print!("{}", report.text());
    }
    report.check()
}
