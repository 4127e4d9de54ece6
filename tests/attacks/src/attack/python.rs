//! Attacks by system calls that Rust's libraries have no safe function for: programs in Python.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A program that runs until this is dropped.
pub struct Python {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Python {
    /// Starts a program with these arguments.
    pub fn start<A: AsRef<OsStr>>(
        program: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let mut child = Command::new("python3")
            .args(["-I", "-c", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("run python3")?;
        let out = child.stdout.take().context("its output")?;
        let lines = BufReader::new(out).lines();
        Ok(Self { child, lines })
    }

    /// The next line.
    pub fn line(&mut self) -> Result<String> {
        match self.lines.next() {
            Some(line) => Ok(line?),
            None => bail!("the program ended"),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
