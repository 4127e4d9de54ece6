//! `tetris doctor`: diagnoses the store, this machine, models and a process.

use std::path::PathBuf;

use clap::Args;
use tetris_agent::store_location::StoreLocation;
use tetris_cli::doctor::{Diagnosis, Emphasis, Status, Subjects, diagnose, render};

use super::error::{Error, Result};
use super::exit::Code;
use super::output::{self, Output};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A model to look at: a safetensors file, a directory as Hugging Face lays it out, or another file
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// A process to look at: its shared and its private memory, and the reason for that
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
}

/// Runs `doctor`. A store that cannot be used is a finding, and no reason to end early.
pub(crate) fn run(args: &DoctorArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let subjects = Subjects::default()
        .with_models(args.models.clone())
        .with_pid(args.pid);
    let diagnosis = diagnose(location, &subjects);
    if out.is_json() {
        out.json(&diagnosis)?;
    } else {
        for line in render(&diagnosis, emphasize).lines() {
            out.line(line)?;
        }
    }
    out.flush()?;
    ended(&diagnosis)
}

/// The exit code is the worst status, for scripts.
fn ended(diagnosis: &Diagnosis) -> Result {
    let code = match diagnosis.status() {
        Status::Ok | Status::Note => return Ok(()),
        Status::Warning => Code::Warnings,
        Status::Failure => Code::Failures,
    };
    let faults = diagnosis.faults();
    Err(Error::message(code, format_args!("found {faults}")))
}

fn emphasize(part: Emphasis, text: &str) -> String {
    match part {
        Emphasis::Heading => output::head(text),
        Emphasis::Mark(Status::Ok) => output::good(text),
        Emphasis::Mark(Status::Note) => output::noted(text),
        Emphasis::Mark(Status::Warning) => output::doubtful(text),
        Emphasis::Mark(Status::Failure) => output::bad(text),
    }
}
