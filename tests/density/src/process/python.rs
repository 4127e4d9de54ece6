//! The interpreter of the workers with PyTorch, and a check of its modules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::methods::Loader;

/// The worker's program.
const WORKER: &str = include_str!("torch_worker.py");
/// Prefix of Tetris settings, which could affect the other methods.
const SETTINGS: &str = "TETRIS_";

/// A Python interpreter.
#[derive(Clone, Debug)]
pub struct Python {
    program: PathBuf,
    safetensors: OnceLock<Option<String>>,
    tetris: OnceLock<Option<String>>,
}

impl Python {
    /// Creates an interpreter from a path, or a name on the search path. Starts nothing yet.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            safetensors: OnceLock::new(),
            tetris: OnceLock::new(),
        }
    }

    /// The interpreter's path or name.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The reason this interpreter cannot use a loader; `None` if it can. Checks once.
    pub fn unavailable(&self, loader: Loader) -> Option<String> {
        match loader {
            Loader::Torch | Loader::TorchDerived => self
                .tetris
                .get_or_init(|| self.cannot_import("torch, tetris.torch")),
            Loader::TorchSafetensors | Loader::TorchCast => self
                .safetensors
                .get_or_init(|| self.cannot_import("torch, safetensors.torch")),
            Loader::Heap | Loader::FileMap | Loader::Mergeable | Loader::Tetris => return None,
        }
        .clone()
    }

    /// Returns the command that runs a worker.
    pub fn worker(&self, loader: Loader) -> Command {
        let mut command = self.command(WORKER);
        command.arg(match loader {
            Loader::Torch => "torch",
            Loader::TorchCast => "torch-cast",
            Loader::TorchDerived => "torch-derived",
            _ => "torch-safetensors",
        });
        command
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-W", "ignore", "-c", script]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(SETTINGS) {
                command.env_remove(name);
            }
        }
        command
    }

    fn cannot_import(&self, modules: &str) -> Option<String> {
        let output = self
            .command(&format!("import {modules}"))
            .stdin(Stdio::null())
            .output();
        let program = self.program.display();
        match output {
            Err(error) => Some(format!("cannot start `{program}` (--python): {error}")),
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let last = stderr.lines().last().unwrap_or("no message");
                Some(format!(
                    "`{program}` (--python) cannot import {modules}: {last}"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_a_reason_and_no_error() {
        let python = Python::new("/nonexistent/python");
        let reason = python.unavailable(Loader::Torch).unwrap();
        assert!(reason.contains("/nonexistent/python"), "{reason}");
        assert_eq!(python.unavailable(Loader::Heap), None);
    }
}
