//! Errors, exit codes and the runtime of a command.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use tetris_conventions::exit::{ExitStatus, FAILED, USAGE};
use tokio::runtime::{Builder, Runtime};

use crate::logs::LogArgs;

/// Worker threads of a daemon's runtime. Long work has its own threads.
const WORKERS: usize = 2;

/// An error with its own exit code; other errors end a command with [`FAILED`].
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub status: ExitStatus,
    error: anyhow::Error,
}

impl Failure {
    /// Gives `error` an exit code.
    pub fn new(status: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { status, error }
    }

    /// The error that was given the code.
    pub fn error(&self) -> &anyhow::Error {
        &self.error
    }
}

impl fmt::Display for Failure {
    /// Shows the error with its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(&self.error))
    }
}

impl std::error::Error for Failure {}

/// The error with its causes, those left out that the message before them quotes already: most messages
/// of system calls end with the kernel's own.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut all = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if all.is_empty() {
            all.clone_from(&text);
        } else if !last.contains(&text) {
            all = format!("{all}: {text}");
        }
        last = text;
    }
    all
}

/// The exit code of an error: that of its [`Failure`], else [`FAILED`].
pub fn status(error: &anyhow::Error) -> ExitStatus {
    let failure = error.downcast_ref::<Failure>();
    failure.map_or(FAILED, |failure| failure.status)
}

/// Sets up logs and does `work`. Returns success, or the error's exit code. Each line of an error is
/// an event of the log.
///
/// The error goes to standard error as it is where the log cannot have it: when the log filter is
/// wrong, or leaves out errors. A command never fails in silence.
pub fn run(logs: &LogArgs, work: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    match logs.init() {
        Ok(()) => logged(work),
        Err(error) => usage(&error),
    }
}

/// Like [`run`], and records spans of `service` if there is a collector.
#[cfg(feature = "traces")]
pub fn run_traced(
    logs: &LogArgs,
    traces: &crate::traces::TraceArgs,
    service: &'static str,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> ExitCode {
    match traces.init(logs, service) {
        Ok(()) => logged(work),
        Err(error) => usage(&error),
    }
}

fn usage(error: &dyn fmt::Display) -> ExitCode {
    say(error);
    ExitCode::from(USAGE.code)
}

fn logged(work: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    let Err(error) = work() else {
        return ExitCode::SUCCESS;
    };
    if tracing::enabled!(tracing::Level::ERROR) {
        for line in with_causes(&error).lines() {
            tracing::error!("{line}");
        }
    } else {
        return report(&error);
    }
    ExitCode::from(status(&error).code)
}

/// Does `work`, which prints its own errors and logs nothing. A wrong log filter is an error even so.
pub fn run_unlogged(logs: &LogArgs, work: impl FnOnce() -> ExitCode) -> ExitCode {
    match logs.filter() {
        Ok(_) => work(),
        Err(error) => usage(&error),
    }
}

/// Prints an error with its causes on standard error, for a command that people wait for. Returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    say(&with_causes(error));
    ExitCode::from(status(error).code)
}

fn say(error: &dyn fmt::Display) {
    // Without standard error there is nowhere to report to.
    drop(writeln!(io::stderr(), "error: {error}"));
}

/// Creates the runtime of a daemon.
///
/// # Errors
///
/// Fails if the process may start no threads or open no descriptors.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open `/x`: {source}")]
    struct Quoting {
        source: io::Error,
    }

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let source = io::Error::from_raw_os_error(2);
        let error = Err::<(), _>(Quoting { source }).context("there is no store");
        assert_eq!(
            with_causes(&error.unwrap_err()),
            "there is no store: cannot open `/x`: No such file or directory (os error 2)"
        );
        let other = anyhow::anyhow!("inner").context("outer");
        assert_eq!(with_causes(&other), "outer: inner");
    }
}
