//! Loads of a safetensors file by libraries for PyTorch, each in a separate Python process.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::bench::Bench;
use crate::process::Process;

const SCRIPT: &str = include_str!("loader.py");

/// A library, and the way to load with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `safetensors.torch.load_file`.
    LoadFile,
    /// The same with `backend="pread"`, from version 0.8 on.
    LoadFilePread,
    /// `Tensor.to` of tensors that are in pinned memory before.
    PinnedCopies,
    /// The Run:ai model streamer.
    RunAi,
}

/// First message of the script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Hello {
    /// The script can load, with these versions.
    Ready(Versions),
    /// The script cannot load, for this reason.
    Missing(String),
}

/// Versions of the libraries that load.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Versions {
    /// Version of PyTorch.
    pub torch: String,
    /// Version of CUDA that it was built for.
    pub cuda: String,
    /// Name and version of the library.
    pub library: String,
}

/// Message of the script after a load.
#[derive(Debug, Deserialize)]
struct Loaded {
    seconds: f64,
    bytes: u64,
}

/// A process that loads the file at each request.
#[derive(Debug)]
pub(super) struct Loader {
    process: Process,
    /// Length of the file's tensors, in bytes.
    bytes: u64,
}

impl Way {
    /// Its name, as an argument of the script.
    fn argument(self) -> &'static str {
        match self {
            Self::LoadFile => "load-file",
            Self::LoadFilePread => "load-file-pread",
            Self::PinnedCopies => "pinned-copies",
            Self::RunAi => "run-ai",
        }
    }
}

impl Loader {
    /// Starts a process of the run's interpreter. The file need not exist yet.
    pub fn of<D: Backend>(bench: &Bench<D>, way: Way) -> Result<(Self, Hello), BenchError> {
        let device = match bench.choice {
            DeviceChoice::Cuda(number) => format!("cuda:{number}"),
            DeviceChoice::Simulated { .. } => "cpu".to_owned(),
        };
        let mut python = Command::new(&bench.python);
        Self::start(&mut python, way, &file(bench), &device, bench.model.bytes())
    }

    fn start(
        python: &mut Command,
        way: Way,
        file: &Path,
        device: &str,
        bytes: u64,
    ) -> Result<(Self, Hello), BenchError> {
        python.args(["-c", SCRIPT, way.argument()]);
        python.arg(file).arg(device);
        python.arg(std::process::id().to_string());
        let mut process = Process::start(python, "python")?;
        let hello = process.hear()?;
        Ok((Self { process, bytes }, hello))
    }

    /// Loads the file, and returns the time in seconds.
    pub fn load(&mut self) -> Result<f64, BenchError> {
        self.process.go_on()?;
        let loaded: Loaded = self.process.hear()?;
        if loaded.bytes == self.bytes {
            return Ok(loaded.seconds);
        }
        let (expected, found) = (self.bytes, loaded.bytes);
        Err(BenchError::Child {
            role: "python".to_owned(),
            reason: format!("expected tensors of {expected} bytes, found {found}"),
        })
    }

    /// Ends the process.
    pub fn end(self) -> Result<(), BenchError> {
        self.process.end()
    }
}

/// Path of the model's file.
pub(super) fn file<D: Backend>(bench: &Bench<D>) -> PathBuf {
    bench.folder.join("model.safetensors")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Starts the script with a file of two tensors of 6 bytes.
    fn start(
        python: &mut Command,
        file: &Path,
        device: &str,
    ) -> Result<(Loader, Hello), BenchError> {
        Loader::start(python, Way::LoadFile, file, device, 12)
    }

    const TORCH: &str = "
__version__ = '2.0'
class version: cuda = '13.0'
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = empty_cache = staticmethod(lambda: None)
def zeros(count, device): pass
";
    const LOADS: &str = "
class Tensor: nbytes = 6
def load_file(file, device):
    if 'bad' in file:
        raise ValueError('no such file')
    return {'a': Tensor(), 'b': Tensor()}
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
        let (mut loader, hello) = start(&mut python, Path::new("/file"), "cuda:0").unwrap();
        let Hello::Ready(Versions {
            torch,
            cuda,
            library,
        }) = hello
        else {
            panic!("expected it to be ready, found {hello:?}");
        };
        assert_eq!(
            (torch.as_str(), cuda.as_str(), library.as_str()),
            ("2.0", "13.0", "safetensors 1.0")
        );
        for _ in 0..2 {
            assert!(loader.load().unwrap() >= 0.0);
        }
        loader.end().unwrap();
    }

    #[test]
    fn what_the_script_cannot_do_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut command) = python(folder.path()) else {
            println!("SKIPPED: what_the_script_cannot_do_it_says: no python3");
            return;
        };
        let (mut loader, _) = start(&mut command, Path::new("/bad"), "cuda:0").unwrap();
        let error = loader.load().unwrap_err().to_string();
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

    /// Interpreters with torch: that of the tests of Python, and the machine's own.
    fn interpreters() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = std::env::var_os("TETRIS_VENV").unwrap_or_else(|| ".venv-tests".into());
        vec![root.join(folder).join("bin/python"), "python3".into()]
    }

    /// Writes a file of two tensors with 12 and 5 bytes.
    fn write_model(path: &Path) {
        let header = r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"b":{"dtype":"U8","shape":[5],"data_offsets":[12,17]}}"#;
        let length = (header.len() as u64).to_le_bytes();
        fs::write(path, [&length, header.as_bytes(), &[7; 17]].concat()).unwrap();
    }

    /// The whole script, on the CPU in place of a device.
    #[test]
    fn every_way_loads_the_file_with_torch_itself() {
        let name = "every_way_loads_the_file_with_torch_itself";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        write_model(&path);
        let ways = [
            Way::LoadFile,
            Way::LoadFilePread,
            Way::PinnedCopies,
            Way::RunAi,
        ];
        for python in interpreters() {
            let begin =
                |way, bytes| Loader::start(&mut Command::new(&python), way, &path, "cpu", bytes);
            if !matches!(begin(Way::LoadFile, 17), Ok((_, Hello::Ready(_)))) {
                println!("SKIPPED: {name}: {} has no torch", python.display());
                continue;
            }
            for way in ways {
                let (mut loader, hello) = begin(way, 17).unwrap();
                if let Hello::Missing(reason) = hello {
                    assert!(
                        matches!(way, Way::LoadFilePread | Way::RunAi),
                        "{way:?}: {reason}"
                    );
                    println!("SKIPPED: {name}: {way:?}: {reason}");
                    continue;
                }
                for _ in 0..2 {
                    assert!(loader.load().unwrap() >= 0.0);
                }
                loader.end().unwrap();
                let (mut other, _) = begin(way, 18).unwrap();
                let error = other.load().unwrap_err().to_string();
                assert!(error.contains("18 bytes, found 17"), "{way:?}: {error}");
            }
        }
    }
}
