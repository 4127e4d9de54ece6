//! The mirror's load against `safetensors.torch.load_file`.

use std::process::Command;

use serde::Deserialize;

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::bench::{Bench, capacity_for};
use crate::model::{Model, write_file};
use crate::process::Process;
use crate::report::{Findings, Limit, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::turns::{Turn, TurnsJob};

/// How many times faster the mirror has to be (its requirement).
const BAR: f64 = 3.0;
const SCRIPT: &str = include_str!("load_file.py");

/// Loads by turns, the mirror's always onto an empty device.
pub struct LoadFile;

/// What the script says first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    /// It can load, with these versions.
    Ready {
        torch: String,
        cuda: String,
        safetensors: String,
    },
    /// It cannot, and why.
    Missing(String),
}

impl<D: Backend> Measure<D> for LoadFile {
    fn about(&self) -> &'static str {
        "the model from the store onto an empty device, against safetensors.torch.load_file(device=\"cuda\") of the same tensors from a hot page cache, by turns"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        if D::STAND_IN {
            return Needs::default();
        }
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes) + model_bytes / 16,
            host_bytes: 0,
            file_bytes: model_bytes,
        }
    }

    fn skip(&self, bench: &Bench<D>) -> Option<String> {
        if D::STAND_IN {
            return Some("the stand-in is host memory, which load_file maps instead of copying: nothing to compare".to_owned());
        }
        // A file that need not be there yet: the script only says whether it could load one.
        match python(bench).map(|(_, hello)| hello) {
            Ok(Hello::Ready { .. }) => None,
            Ok(Hello::Missing(reason)) => Some(format!(
                "{reason}; choose another interpreter with --python"
            )),
            Err(error) => Some(format!("{error}; choose another interpreter with --python")),
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let path = file(bench);
        write_file(&bench.store, &bench.model, &path)?;
        let (mut torch, hello) = python(bench)?;
        let mut load = || -> Result<f64, BenchError> {
            torch.go_on()?;
            torch.hear()
        };
        let first = load()?;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..bench.settings.rounds {
            theirs.push(load()?);
            ours.push(from_store(bench)?.arrived_s);
        }
        torch.end()?;
        std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
        let mut findings = findings(bench.model.bytes(), first, theirs, ours);
        if let Hello::Ready {
            torch,
            cuda,
            safetensors,
        } = hello
        {
            findings.note(format!("torch {torch} with CUDA {cuda}, safetensors {safetensors}; the file is on the store's tmpfs"));
        }
        Ok(findings)
    }
}

fn findings(bytes: u64, first: f64, theirs: Vec<f64>, ours: Vec<f64>) -> Findings {
    let mut findings = Findings::default();
    let medians = (middle(&theirs), middle(&ours));
    findings.series("load_file, first time", Unit::Seconds, vec![first]);
    findings.series("load_file", Unit::Seconds, theirs);
    findings.series("the mirror's load", Unit::Seconds, ours);
    for (name, seconds) in [
        ("load_file's rate", medians.0),
        ("the mirror's rate", medians.1),
    ] {
        if let Some(rate) = ratio(bytes as f64, seconds) {
            findings.figure(name, Unit::BytesPerSecond, rate);
        }
    }
    if let Some(times) = ratio(medians.0, medians.1) {
        findings.judged(
            "load_file takes so many times as long",
            Unit::Ratio,
            times,
            Limit::AtLeast(BAR),
        );
    }
    findings.note("the mirror's time is a client's, from connecting until all has arrived: chunks are made and pages registered in it");
    findings
}

fn file<D: Backend>(bench: &Bench<D>) -> std::path::PathBuf {
    bench.folder.join("model.safetensors")
}

/// Starts the script.
fn python<D: Backend>(bench: &Bench<D>) -> Result<(Process, Hello), BenchError> {
    let device = match bench.choice {
        DeviceChoice::Cuda(number) => format!("cuda:{number}"),
        DeviceChoice::StandIn { .. } => "cpu".to_owned(),
    };
    let mut command = Command::new(&bench.python);
    command.arg("-c").arg(SCRIPT).arg(file(bench)).arg(device);
    command.arg(std::process::id().to_string());
    let mut process = Process::start(&mut command, "python", None)?;
    let hello = process.hear()?;
    Ok((process, hello))
}

/// Loads through a server that has nothing yet, and has copied one small tensor, so that streams and buffers exist, as they
/// do in a daemon.
fn from_store<D: Backend>(bench: &Bench<D>) -> Result<Turn, BenchError> {
    let capacity = capacity_for(bench.model.bytes(), bench.settings.chunk_bytes);
    let server = bench.serve(capacity)?;
    let smallest = bench
        .model
        .tensors
        .iter()
        .min_by_key(|tensor| tensor.object.len);
    let small = Model {
        tensors: smallest.cloned().into_iter().collect(),
    };
    let mut client = bench.start(Job::Turns(TurnsJob {
        socket: server.socket.clone(),
        models: vec![small, bench.model.clone()],
    }))?;
    client.hear::<()>()?;
    let mut turn = None;
    for _ in 0..2 {
        client.go_on()?;
        turn = Some(client.hear()?);
    }
    client.end()?;
    server.end()?;
    turn.ok_or_else(|| BenchError::Bug("expected two turns, found none".to_owned()))
}
