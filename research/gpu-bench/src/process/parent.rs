//! The parent's side of the communication.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Said;
use crate::BenchError;

/// This program, even if its file was replaced since its start.
const SELF: &str = "/proc/self/exe";

/// Command line of children.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Arguments before those of this package: the name of a subcommand.
    leading: Vec<OsString>,
}

impl Launcher {
    /// Creates a launcher of this program with these arguments and `--role`.
    pub fn new(leading: &[&str]) -> Self {
        let leading = leading.iter().map(OsString::from).collect();
        Self { leading }
    }

    /// Starts a child that executes `order`. `role` is its name, for messages.
    pub fn start(&self, role: &str, order: &impl Serialize) -> Result<Process, BenchError> {
        Process::start(&mut self.command(), role)?.ordered(order)
    }

    /// Starts a child in another process group, which signals of the terminal do not reach.
    pub fn start_apart(&self, role: &str, order: &impl Serialize) -> Result<Process, BenchError> {
        Process::start(self.command().process_group(0), role)?.ordered(order)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(SELF);
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        command.args(&self.leading).arg("--role");
        command
    }
}

/// A child process. It is killed on drop.
#[derive(Debug)]
pub struct Process {
    role: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process that communicates like a child.
    pub(crate) fn start(command: &mut Command, role: &str) -> Result<Self, BenchError> {
        let failed = |reason: String| BenchError::Child {
            role: role.to_owned(),
            reason,
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.map_err(|error| failed(format!("it does not start: {error}")))?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let output = output.ok_or_else(|| failed("it has no output".to_owned()))?;
        Ok(Self {
            role: role.to_owned(),
            child,
            input,
            output: BufReader::new(output),
        })
    }

    fn ordered(mut self, order: &impl Serialize) -> Result<Self, BenchError> {
        let order = serde_json::to_string(order);
        let order = order.map_err(|error| self.failed(error.to_string()))?;
        self.say(&order)?;
        Ok(self)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next message.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, BenchError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        if !matches!(read, Ok(bytes) if bytes > 0) {
            let ended = self.child.wait();
            let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(self.failed(format!("it ended: {ended}")));
        }
        match serde_json::from_str(&line) {
            Ok(Said::Result(value)) => serde_json::from_value(value)
                .map_err(|error| self.failed(format!("it sent an unexpected result: {error}"))),
            Ok(Said::Error(reason)) => Err(self.failed(reason)),
            Err(error) => Err(self.failed(format!("it said `{}`: {error}", line.trim_end()))),
        }
    }

    /// Lets it continue.
    pub fn go_on(&mut self) -> Result<(), BenchError> {
        self.say("")
    }

    /// Ends it properly: closes its input and waits for its end.
    pub fn end(mut self) -> Result<(), BenchError> {
        drop(self.input.take());
        let status = self.child.wait();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failed(format!("it ended: {status}"))),
            Err(error) => Err(self.failed(error.to_string())),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let line = format!("{line}\n");
        let said = self
            .input
            .as_mut()
            .map(|input| input.write_all(line.as_bytes()));
        match said {
            Some(Ok(())) => Ok(()),
            // It has ended, and may have sent a reason.
            Some(Err(_)) | None => match self.hear::<serde_json::Value>() {
                Err(error) => Err(error),
                Ok(_) => Err(self.failed("it no longer reads its input".to_owned())),
            },
        }
    }

    fn failed(&self, reason: String) -> BenchError {
        BenchError::Child {
            role: self.role.clone(),
            reason,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}
