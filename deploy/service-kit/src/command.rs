//! Errors, exit codes and the runtime of a command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use crate::logs::LogArgs;

/// Worker threads of a daemon's runtime. Long work has threads of its own.
const WORKERS: usize = 2;

/// Sets up logs and does `work`. Returns success, or failure after an error, which is logged.
///
/// An error of the log arguments goes to standard error as it is, since there is no log yet.
pub fn run(logs: &LogArgs, work: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    if let Err(error) = logs.init() {
        // Without standard error nobody can be told.
        drop(writeln!(io::stderr(), "error: {error}"));
        return ExitCode::FAILURE;
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
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
