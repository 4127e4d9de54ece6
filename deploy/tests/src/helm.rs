//! Helm, where it is installed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::objects::Objects;

/// Variable with the path of Helm, 3.18 or later; without it, `helm` of the PATH.
pub const HELM: &str = "TETRIS_HELM";

/// Name of the release in tests.
pub const RELEASE: &str = "tetris";

/// The program.
#[derive(Debug, Clone)]
pub struct Helm {
    program: String,
}

impl Helm {
    /// `None` where Helm is not installed.
    pub fn find() -> Option<Self> {
        if let Some(program) = std::env::var(HELM).ok().filter(|path| !path.is_empty()) {
            return Some(Self { program });
        }
        let mut command = Command::new("helm");
        command.arg("version");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let is_there = command.status().is_ok_and(|status| status.success());
        is_there.then(|| Self {
            program: "helm".to_owned(),
        })
    }

    /// Runs it to its end, with `values` in a file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn output(&self, args: &[&str], values: &str) -> Result<Output> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(values.as_bytes())?;
        let path = file.path().display().to_string();
        self.output_of(&[args, &["--values", &path]].concat())
    }

    fn output_of(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        let output = command.args(args).stdin(Stdio::null()).output();
        output.with_context(|| format!("cannot run {}", self.program))
    }

    /// Runs it and returns its output.
    ///
    /// # Errors
    /// When it fails, with its messages.
    pub fn run(&self, args: &[&str], values: &str) -> Result<String> {
        self.checked(args, &self.output(args, values)?)
    }

    /// Runs a subcommand without values and returns its output.
    ///
    /// # Errors
    /// When it fails, with its messages.
    pub fn command(&self, args: &[&str]) -> Result<String> {
        self.checked(args, &self.output_of(args)?)
    }

    fn checked(&self, args: &[&str], output: &Output) -> Result<String> {
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{} {args:?}: {errors}",
            self.program
        );
        Ok(String::from_utf8(output.stdout.clone())?)
    }

    /// The manifest of a release of the chart in a namespace.
    ///
    /// # Errors
    /// When Helm fails, with its messages.
    pub fn template(&self, chart: &Path, namespace: &str, values: &str) -> Result<String> {
        let chart = chart.display().to_string();
        self.run(
            &["template", RELEASE, &chart, "--namespace", namespace],
            values,
        )
    }

    /// The objects of a release of the chart in a namespace.
    ///
    /// # Errors
    /// When Helm fails, or prints something else than YAML.
    pub fn objects(&self, chart: &Path, namespace: &str, values: &str) -> Result<Objects> {
        let mut objects = Objects::parse(&self.template(chart, namespace, values)?)?;
        // Documents of comments only.
        objects.0.retain(|object| !object.is_null());
        Ok(objects)
    }
}
