//! The benchmark as a program of its own: what `tetris gpu-bench` runs.
#![allow(clippy::print_stdout, reason = "the report goes there")]

use clap::Parser;
use tetris_gpu_bench::{GpuBenchArgs, run};

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

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let Some(report) = run(&cli.args, &[])? else {
        return Ok(());
    };
    if cli.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(report.check()?)
}
