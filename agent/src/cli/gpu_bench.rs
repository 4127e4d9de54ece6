//! `tetris gpu-bench`: what the GPU mirror costs and saves.

use tetris_gpu_bench::{BenchError, GpuBenchArgs, Report};

use super::error::{Error, Result};
use super::exit::Code;
use super::output::Output;

/// The subcommand's name, with which its processes are started.
const NAME: &str = "gpu-bench";

impl From<BenchError> for Error {
    fn from(error: BenchError) -> Self {
        let code = match &error {
            BenchError::Model { .. } => Code::Model,
            _ => Code::Failed,
        };
        Self::new(code, error)
    }
}

/// Runs `gpu-bench`.
pub(crate) fn run(args: &GpuBenchArgs, out: &mut Output) -> Result {
    let Some(report) = tetris_gpu_bench::run(args, &[NAME])? else {
        return Ok(());
    };
    print(&report, out)?;
    out.flush()?;
    Ok(report.check()?)
}

fn print(report: &Report, out: &mut Output) -> Result {
    if out.is_json() {
        return out.json(report);
    }
    report.text().lines().try_for_each(|line| out.line(line))
}
