//! Loads of the mirror against `safetensors.torch.load_file`.

use std::process::Command;

use serde::Deserialize;

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::bench::{Bench, capacity_for};
use crate::model::{BenchModel, write_file};
use crate::process::Process;
use crate::report::{Findings, Limit, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::turns::{Turn, TurnsJob};

/// Minimum speed-up of the mirror (its requirement).
const BAR: f64 = 3.0;
const SCRIPT: &str = include_str!("load_file.py");

/// Loads by turns, the mirror's always onto an empty device.
pub struct LoadFile;

/// First message of the script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    /// The script can load, with these versions.
    Ready {
        torch: String,
        cuda: String,
        safetensors: String,
    },
    /// The script cannot load, for this reason.
    Missing(String),
}

impl<D: Backend> Measure<D> for LoadFile {
    fn about(&self) -> &'static str {
        "load of the model from the store onto an empty device, against safetensors.torch.load_file(device=\"cuda\") of the same tensors from a hot page cache, by turns"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        if D::SIMULATED {
            return Needs::default();
        }
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes) + model_bytes / 16,
            host_bytes: 0,
            file_bytes: model_bytes,
        }
    }

    fn skip(&self, bench: &Bench<D>) -> Option<String> {
        if D::SIMULATED {
            return Some("the simulated device is host memory, which load_file maps instead of copying: nothing to compare".to_owned());
        }
        // The file does not exist yet: the script only reports if it could load one.
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
    findings.note("the mirror's time is a client's, from connecting until the whole model has arrived: it includes creating chunks; the server registers pages afterwards");
    findings
}

fn file<D: Backend>(bench: &Bench<D>) -> std::path::PathBuf {
    bench.folder.join("model.safetensors")
}

/// Starts the script. The file need not exist yet.
fn python<D: Backend>(bench: &Bench<D>) -> Result<(Process, Hello), BenchError> {
    let device = match bench.choice {
        DeviceChoice::Cuda(number) => format!("cuda:{number}"),
        DeviceChoice::Simulated { .. } => "cpu".to_owned(),
    };
    start(&mut Command::new(&bench.python), &file(bench), &device)
}

fn start(
    python: &mut Command,
    file: &std::path::Path,
    device: &str,
) -> Result<(Process, Hello), BenchError> {
    python.arg("-c").arg(SCRIPT).arg(file).arg(device);
    python.arg(std::process::id().to_string());
    let mut process = Process::start(python, "python")?;
    let hello = process.hear()?;
    Ok((process, hello))
}

/// Loads through a server with an empty device. Before the measurement the server has copied one
/// small tensor, so that its streams and buffers exist, as in a daemon.
fn from_store<D: Backend>(bench: &Bench<D>) -> Result<Turn, BenchError> {
    let capacity = capacity_for(bench.model.bytes(), bench.settings.chunk_bytes);
    let server = bench.serve(capacity)?;
    let smallest = bench
        .model
        .tensors
        .iter()
        .min_by_key(|tensor| tensor.object.len);
    let small = BenchModel {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const TORCH: &str = "
__version__ = '2.0'
class version: cuda = '13.0'
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = empty_cache = staticmethod(lambda: None)
def zeros(count, device): pass
";
    const LOADS: &str = "
def load_file(file, device):
    if 'bad' in file:
        raise ValueError('no such file')
    return {'device': device}
";

    /// A Python with modules in place of torch and safetensors, if Python is installed.
    fn python(folder: &Path) -> Option<Command> {
        Command::new("python3").arg("-V").output().ok()?;
        fs::create_dir(folder.join("safetensors")).unwrap();
        fs::write(folder.join("torch.py"), TORCH).unwrap();
        fs::write(folder.join("safetensors/torch.py"), LOADS).unwrap();
        fs::write(
            folder.join("safetensors/__init__.py"),
            "__version__ = '1.0'",
        )
        .unwrap();
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", folder);
        Some(command)
    }

    #[test]
    fn the_script_loads_each_time_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut python) = python(folder.path()) else {
            println!("SKIPPED: the_script_loads_each_time_it_is_told_to: no python3");
            return;
        };
        let (mut process, hello) = start(&mut python, Path::new("/file"), "cuda:0").unwrap();
        let Hello::Ready {
            torch,
            cuda,
            safetensors,
        } = hello
        else {
            panic!("expected it to be ready, found {hello:?}");
        };
        assert_eq!(
            (torch.as_str(), cuda.as_str(), safetensors.as_str()),
            ("2.0", "13.0", "1.0")
        );
        for _ in 0..2 {
            process.go_on().unwrap();
            assert!(process.hear::<f64>().unwrap() >= 0.0);
        }
        process.end().unwrap();
    }

    #[test]
    fn what_the_script_cannot_do_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut command) = python(folder.path()) else {
            println!("SKIPPED: what_the_script_cannot_do_it_says: no python3");
            return;
        };
        let (mut process, _) = start(&mut command, Path::new("/bad"), "cuda:0").unwrap();
        process.go_on().unwrap();
        let error = process.hear::<f64>().unwrap_err().to_string();
        assert!(
            error.contains("python") && error.contains("no such file"),
            "{error}"
        );
        fs::write(
            folder.path().join("torch.py"),
            TORCH.replace("True", "False"),
        )
        .unwrap();
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", folder.path());
        let (_, hello) = start(&mut command, Path::new("/file"), "cuda:0").unwrap();
        assert!(
            matches!(&hello, Hello::Missing(why) if why.contains("no CUDA device")),
            "{hello:?}"
        );
        fs::remove_file(folder.path().join("safetensors/__init__.py")).unwrap();
        fs::write(folder.path().join("torch.py"), "import no_such_module").unwrap();
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", folder.path());
        let (_, hello) = start(&mut command, Path::new("/file"), "cuda:0").unwrap();
        assert!(
            matches!(&hello, Hello::Missing(why) if why.contains("no torch")),
            "{hello:?}"
        );
    }

    #[test]
    fn a_python_that_is_not_there_is_named() {
        let mut command = Command::new("/no/such/python");
        let error = start(&mut command, Path::new("/file"), "cuda:0").unwrap_err();
        assert!(error.to_string().contains("does not start"), "{error}");
    }

    #[test]
    fn the_mirror_is_compared_by_medians() {
        let findings = findings(12, 9.0, vec![6.0, 6.0, 90.0], vec![2.0, 1.0, 2.0]);
        let times = findings.figures.iter().find(|figure| figure.bar.is_some());
        assert!((times.unwrap().value - 3.0).abs() < 1e-9);
    }
}
