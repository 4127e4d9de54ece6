//! Running a worker under strace.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{BEGIN, END, Job, Outcome, Scenario, errors};
use crate::process::RESULT;

/// Taken for writing while a process is started, and for reading while references are counted: a child
/// has all descriptors for a moment (see [`crate::process::quiet`]).
pub(super) static STARTING: RwLock<()> = RwLock::new(());

/// A worker that takes longer hangs, and is killed.
const DEADLINE: Duration = Duration::from_mins(1);

/// One system call that fails once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// Name of the call.
    pub call: String,
    /// Number among the calls of this name, from the start of the process.
    pub number: usize,
    /// The error.
    pub error: &'static str,
    /// Line of strace about the call without a fault.
    pub line: String,
}

/// Result of a traced worker.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Its report, unless it died.
    pub outcome: Result<Outcome, String>,
    /// Errors to inject into the same run.
    pub injections: Vec<Injection>,
    /// True if a call between the markers was made to fail.
    pub hit: bool,
}

/// The reason calls cannot be made to fail on this machine.
pub fn reason_against() -> Option<String> {
    let run = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat"])
        .args(["-e", "inject=linkat:error=EIO:when=1", "true"])
        .stdin(Stdio::null())
        .output();
    match run {
        Err(error) => Some(format!("strace cannot be run: {error}")),
        Ok(output) if !output.status.success() => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Some(format!("strace cannot trace: {}", stderr.trim()))
        }
        Ok(_) => None,
    }
}

/// Runs a worker, in which `injection` fails.
pub(super) fn run(
    exe: &str,
    job: &Job,
    log: &Path,
    injection: Option<&Injection>,
) -> anyhow::Result<Traced> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "300", "-e", "signal=none", "-o"]);
    command.arg(log).arg("-e");
    command.arg(format!("trace={}", errors::TRACED.replace(' ', "")));
    if job.scenario == Scenario::FullLoad {
        command.args(["-e", "inject=fallocate:error=ENOSPC"]);
    }
    if let Some(Injection {
        call,
        number,
        error,
        ..
    }) = injection
    {
        command.arg("-e");
        command.arg(format!("inject={call}:error={error}:when={number}"));
    }
    command.arg(exe).arg(serde_json::to_string(job)?);
    let (status, stdout, stderr) = wait(&mut spawn(&mut command)?)?;
    let log = std::fs::read_to_string(log).context("strace's log")?;
    let outcome = match stdout.lines().find_map(|line| line.strip_prefix(RESULT)) {
        Some(result) if status.success() => Ok(serde_json::from_str(result)?),
        _ => Err(format!("{status}\n{stdout}\n{stderr}")),
    };
    parse(&log, outcome, job.scenario)
}

/// A worker that stands still behind a system call.
#[derive(Debug)]
pub struct Stopped {
    child: Child,
    log: PathBuf,
}

impl Stopped {
    /// Starts a worker that stops when it has made its first call of this name.
    pub(super) fn start(exe: &str, job: &Job, log: PathBuf, call: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "signal=none", "-o"]);
        command.arg(&log).arg("-e");
        command.arg(format!("trace={call}")).arg("-e");
        // Pending when the call begins, taken when it has ended.
        command.arg(format!("inject={call}:signal=SIGSTOP:when=1"));
        command.arg(exe).arg(serde_json::to_string(job)?);
        let child = spawn(&mut command)?;
        Ok(Self { child, log })
    }

    /// Lets it go on and returns what it reported.
    pub fn go(mut self) -> anyhow::Result<Outcome> {
        let until = Instant::now() + DEADLINE;
        // The call may have been made before strace has written it down.
        let worker = loop {
            if let Some(worker) = self.worker() {
                break worker;
            }
            ensure!(Instant::now() < until, "strace writes nothing down");
            std::thread::sleep(Duration::from_millis(1));
        };
        kill(worker, Signal::SIGCONT)?;
        let (status, stdout, stderr) = wait(&mut self.child)?;
        let result = stdout.lines().find_map(|line| line.strip_prefix(RESULT));
        let result = result.with_context(|| format!("{status}\n{stdout}\n{stderr}"))?;
        Ok(serde_json::from_str(result)?)
    }

    /// The worker, with whose number each line of the log begins.
    fn worker(&self) -> Option<Pid> {
        let log = std::fs::read_to_string(&self.log).ok()?;
        let (number, _) = log.split_once(' ')?;
        Some(Pid::from_raw(number.parse().ok()?))
    }
}

impl Drop for Stopped {
    /// Ends a worker that was not let go, and with it strace.
    fn drop(&mut self) {
        // As long as strace runs, the worker's number is its own.
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(worker) = self.worker() {
                let _ = kill(worker, Signal::SIGKILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    let _starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start strace")
}

/// Waits until a process has ended. What it writes is shorter than a pipe's buffer.
fn wait(child: &mut Child) -> anyhow::Result<(ExitStatus, String, String)> {
    let until = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            bail!("a worker hung and was killed");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    out.context("stdout")?.read_to_string(&mut stdout)?;
    err.context("stderr")?.read_to_string(&mut stderr)?;
    Ok((status, stdout, stderr))
}

/// Reads strace's log. Lines begin with the number of the thread.
fn parse(
    log: &str,
    outcome: Result<Outcome, String>,
    scenario: Scenario,
) -> anyhow::Result<Traced> {
    let mut traced = Traced {
        outcome,
        injections: Vec::new(),
        hit: false,
    };
    let (mut main, mut inside) = (None, false);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in log.lines() {
        let (thread, call) = line.split_once(' ').context("a line without a thread")?;
        ensure!(
            *main.get_or_insert(thread) == thread,
            "{scenario:?} has another thread: {line}"
        );
        let call = call.trim_start();
        let Some((name, _)) = call.split_once('(') else {
            continue;
        };
        let number = counts.entry(name).or_default();
        *number += 1;
        if call.contains(END) {
            inside = false;
        }
        if inside {
            let constant = scenario == Scenario::FullLoad && name == "fallocate";
            traced.hit |= call.contains("(INJECTED)") && !constant;
            let possible = if constant {
                &[]
            } else {
                errors::of(name, call)
            };
            traced
                .injections
                .extend(possible.iter().map(|&error| Injection {
                    call: name.to_owned(),
                    number: *number,
                    error,
                    line: call.to_owned(),
                }));
        }
        inside |= call.contains(BEGIN);
    }
    Ok(traced)
}
