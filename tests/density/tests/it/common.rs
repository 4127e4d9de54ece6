//! Parts shared by the tests: tiny models, workers, and the program itself.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tetris_density::process::handle::Launcher;
use tetris_density::process::python::Python;
use tetris_density::synthetic::{self, Model, transformer};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_density");

/// Starts workers of the program under test.
pub fn launcher() -> Launcher {
    Launcher {
        program: PROGRAM.into(),
        python: python(),
        deadline: Duration::from_mins(1),
    }
}

/// The interpreter that the program uses.
pub fn python() -> Python {
    let named = std::env::var_os("TETRIS_DENSITY_PYTHON");
    Python::new(named.unwrap_or_else(|| "python3".into()))
}

/// A model of about a megabyte.
pub fn tiny() -> Model {
    transformer::bert("tiny", 64, 2, 256, 2000)
}

/// The tiny model as a file in a directory.
pub fn tiny_file(directory: &Path) -> PathBuf {
    let path = directory.join("tiny.safetensors");
    synthetic::write(&tiny(), 7, &path).unwrap();
    path
}

/// Runs the program with all its files below `workdir`.
pub fn density(workdir: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .arg("--workdir")
        .arg(workdir)
        .args(arguments)
        .output()
        .unwrap()
}

/// Reports that a test, or a part of it, cannot run here.
pub fn skipped(reason: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: {reason}").unwrap();
}
