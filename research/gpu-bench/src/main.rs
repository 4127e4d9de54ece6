//! The benchmark as a separate program for its tests: the code of `gpu-bench`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report goes there"
)]

use std::process::ExitCode;

use clap::Parser;
use tetris_gpu_bench::{BenchError, GpuBenchArgs, run};

/// Measure the costs and savings of the GPU mirror on a device
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
