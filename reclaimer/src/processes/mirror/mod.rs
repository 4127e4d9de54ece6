//! The GPU mirror as its own process: `tetris-node mirror`, and the broker's talk with it.
//!
//! The process has the devices, and the stores as their owner. It has no network, no token and no
//! capability. Its clients connect to its sockets in the stores.

mod client;
mod server;
mod status;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tetris_service_kit::command::runtime;
use tetris_service_kit::freed_pages;
use tetris_service_kit::http::ConnectionLimits;
use tetris_service_kit::shutdown::{signals, until};
use tetris_service_kit::traces::while_exporting;
use tetris_service_kit::unix_http;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::reporter::send_reports;
use super::{sandbox, traces};
use crate::config::{Config, ConfigError, ConfigFlags, ConfigMistake};
use crate::field_error::FieldError;
use crate::gpu_mirror::{GpuMirrorConfig, GpuMirrorThread, needs_restart};
use crate::process::{Process, ProcessesConfig};
use crate::records::millis;
use crate::report::process_report::{ProcessReport, SandboxReport, Usage};

pub use client::beside;
use server::Served;
pub use status::MirrorStatus;

/// Limits of the socket, which other processes of the daemon alone can reach.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 64,
    per_address: 32,
    head: Duration::from_secs(5),
    pace: ConnectionLimits::PACE,
    stop: Duration::from_secs(2),
};

/// Serves the devices of the table `[gpu_mirror]` until SIGTERM or SIGINT. A missing or hung driver
/// is in its status, and does not end it. SIGHUP reads the configuration again, and the log names
/// changes that need a restart; the broker sends the rest.
///
/// # Errors
/// When the configuration is wrong or has no table `[gpu_mirror]`, another mirror runs, or a thread
/// cannot be started.
pub fn run(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    let table = table(&config)?;
    sandbox::enter(Process::Mirror, &config, flags.config.as_deref())?;
    let sandbox = SandboxReport::of_this_process();
    let processes = &config.file.processes;
    let via = traces::via(Process::Mirror, processes)?;
    let serving = serve(flags, processes, table, sandbox);
    runtime()?.block_on(while_exporting(via, serving))
}

async fn serve(
    flags: &ConfigFlags,
    processes: &ProcessesConfig,
    table: GpuMirrorConfig,
    sandbox: SandboxReport,
) -> Result<()> {
    tokio::spawn(freed_pages::follow());
    let mut signaled = pin!(signals()?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    let listener = unix_http::listen(&processes.socket_of(Process::Mirror))?;
    let started_ms = millis(SystemTime::now());
    let thread = GpuMirrorThread::start(table.clone()).context("cannot start the GPU mirror")?;
    let name = format!("{started_ms}-{}", std::process::id());
    let served = Arc::new(Served::new(name, table.clone(), thread));
    let router = server::router(Arc::clone(&served));
    let serving = unix_http::serve(listener, router, LIMITS, until(stopped.clone()));
    let serving = tokio::spawn(serving);
    let to = [Process::Broker, Process::Cluster].map(|to| (to, processes.socket_of(to)));
    // Nothing of a report changes at once.
    let (_unchanged, changes) = watch::channel(());
    let report = move || report(started_ms, sandbox.clone());
    let reporting = send_reports(Process::Mirror, to.into(), report, changes, stopped);
    let reporting = tokio::spawn(reporting);
    loop {
        tokio::select! {
            () = &mut signaled => break,
            _ = hang_up.recv() => reload(flags, &table),
        }
    }
    tracing::info!("stopping");
    let _nobody_listens = stop.send(true);
    serving.await.context("the socket failed")?;
    reporting.await.context("the reports failed")?;
    // Its sockets go, and a driver that hangs is left behind.
    let ended = tokio::task::spawn_blocking(move || drop(served));
    ended.await.context("the GPU mirror's end failed")
}

fn table(config: &Config) -> Result<GpuMirrorConfig, ConfigError> {
    config.file.gpu_mirror.clone().ok_or_else(|| {
        let expected = "a table with `device_bytes`, since `tetris-node mirror` serves devices";
        let missing = FieldError::new("gpu_mirror", expected, "none");
        ConfigError::Wrong(vec![ConfigMistake::of_field(&missing)])
    })
}

fn report(started_ms: u64, sandbox: SandboxReport) -> ProcessReport {
    ProcessReport {
        process: Process::Mirror,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms,
        errors: BTreeMap::new(),
        usage: Usage::of_this_process(),
        volumes: None,
        sandbox,
    }
}

/// Reads the configuration again, and logs the changes since the start that need a restart.
fn reload(flags: &ConfigFlags, table: &GpuMirrorConfig) {
    match flags.load() {
        Ok(config) => {
            if let Some(fields) = needs_restart(Some(table), config.file.gpu_mirror.as_ref()) {
                tracing::warn!(
                    fields,
                    "changes of these fields take force when the GPU mirror is restarted"
                );
            }
            tracing::info!("configuration read again: the broker tells quotas and limits");
        }
        Err(error) => {
            for error in error.to_string().lines() {
                tracing::error!(
                    error,
                    "the new configuration is wrong; the one in force stays"
                );
            }
        }
    }
}
