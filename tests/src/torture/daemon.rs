//! The node's daemon of the torture test: a configuration under which it frees all the time, and its starts and ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use rand::RngExt;
use rand::rngs::StdRng;
use tetris_reclaimer_core::Order;

use crate::process::{Worker, require_killed};
use crate::task::{Job, Task};

/// A daemon that takes longer to start hangs.
const DEADLINE: Duration = Duration::from_secs(30);

/// Starts and ends daemons of one store, one after the other.
#[derive(Debug)]
pub(super) struct Daemon {
    exe: &'static str,
    store: PathBuf,
    pub(super) config: PathBuf,
    events: PathBuf,
    running: Option<Worker>,
}

impl Daemon {
    pub(super) fn new(exe: &'static str, store: &Path, config: PathBuf, events: PathBuf) -> Self {
        Self {
            exe,
            store: store.to_owned(),
            config,
            events,
            running: None,
        }
    }

    /// Writes a configuration, which differs each time in what it frees first and what it spares, and starts a daemon.
    pub(super) fn start(&mut self, random: &mut StdRng) -> anyhow::Result<()> {
        let order = Order::ALL[random.random_range(0..Order::ALL.len())].name();
        let keep_alive = random.random_range(0..2);
        std::fs::write(&self.config, toml(&self.store, order, keep_alive))?;
        let task = Task::Daemon {
            config: self.config.clone(),
            events: self.events.clone(),
        };
        self.running = Some(Worker::start(self.exe, &Job::new(task)));
        Ok(())
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Kills it. Panics if it had ended before.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        let Some(daemon) = self.running.take() else {
            return Ok(());
        };
        daemon.signal(Signal::SIGKILL)?;
        require_killed(daemon);
        Ok(())
    }

    /// Asks it to stop. Panics unless it ends in order.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        let Some(daemon) = self.running.take() else {
            return Ok(());
        };
        let since = Instant::now();
        while !catches_sigterm(&daemon)? {
            ensure!(since.elapsed() < DEADLINE, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon.signal(Signal::SIGTERM)?;
        daemon.finish().result::<()>();
        let socket = self.store.join("daemon");
        ensure!(!socket.exists(), "a daemon that stopped left its socket");
        Ok(())
    }
}

/// Returns true if it has come so far that SIGTERM does not simply end it.
fn catches_sigterm(daemon: &Worker) -> anyhow::Result<bool> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .context("no SigCgt")?;
    let caught = u64::from_str_radix(caught.trim(), 16)?;
    Ok(caught >> (Signal::SIGTERM as i32 - 1) & 1 == 1)
}

fn toml(store: &Path, order: &str, keep_alive_secs: u64) -> String {
    format!(
        r#"
interval_secs = 1
watermark_check_ms = 20

[[stores]]
name = "torture"
path = "{}"

[policy]
high_watermark_percent = 80
low_watermark_percent = 50

[policy.store]
order = "{order}"
keep_alive_secs = {keep_alive_secs}
expiry = "fixed"
expire_after_secs = 1

[scrub]
bytes_per_sec = 50_000_000
interval_hours = 0
depth = "full"
"#,
        store.display()
    )
}
