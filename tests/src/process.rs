//! Worker processes with a deadline.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use crate::task::Job;

/// A worker that takes longer hangs, and is killed.
const DEADLINE: Duration = Duration::from_mins(1);

/// Taken for writing while a process is started.
static STARTING: RwLock<()> = RwLock::new(());

/// While the guard lives, no other test of this process starts a worker.
///
/// A child has copies of all descriptors between `fork` and `exec`, and with them, for a moment,
/// references to objects and files that its parent has closed. Who counts such things waits that out.
pub fn quiet() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// While the guard lives, no one is [`quiet`]. For the start of a process.
pub fn starting() -> RwLockWriteGuard<'static, ()> {
    STARTING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Line that a worker prints before it waits for the signal to begin.
pub const READY: &str = "ready";
/// Prefix of a worker's result.
pub const RESULT: &str = "result ";

/// A running worker. Killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    watchdog: Option<(Sender<()>, JoinHandle<bool>)>,
}

/// End of a worker.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Its standard output that was not read before.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Worker {
    /// Starts `exe`, the worker program, with `job` and these environment variables.
    pub fn spawn<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        exe: &str,
        job: &Job,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let job = serde_json::to_string(job).expect("a job is plain data");
        let starting = starting();
        let mut child = Command::new(exe)
            .arg(job)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start a worker");
        drop(starting);
        let pid = Pid::from_raw(child.id().cast_signed());
        let (stop, stopped) = channel();
        let watchdog = std::thread::spawn(move || {
            let late = stopped.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout);
            if late {
                let _ = kill(pid, Signal::SIGKILL);
            }
            late
        });
        let mut errors = child.stderr.take().expect("stderr is piped");
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self {
            stdin: child.stdin.take(),
            child,
            stdout,
            stderr: Some(stderr),
            watchdog: Some((stop, watchdog)),
        }
    }

    /// Starts `exe` with `job`.
    pub fn start(exe: &str, job: &Job) -> Self {
        Self::spawn(exe, job, std::iter::empty::<(&str, &str)>())
    }

    /// The worker's process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits until the worker prints `line`.
    ///
    /// # Panics
    /// When it ends, or prints another line.
    pub fn wait_for(&mut self, line: &str) {
        let answer = self.read_line();
        if answer != line {
            let stderr = self.kill();
            panic!("expected the worker to say {line:?}, it said {answer:?}\n{stderr}");
        }
    }

    /// Waits for the worker's next line; empty when it has ended.
    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.stdout.read_line(&mut line);
        line.trim_end().to_owned()
    }

    /// Waits until the worker is ready to begin.
    pub fn wait_ready(&mut self) {
        self.wait_for(READY);
    }

    /// Lets a worker go on that waits for the word.
    pub fn go(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // A worker that has died meanwhile is noticed when it is waited for.
            let _ = stdin.write_all(b"go\n").and_then(|()| stdin.flush());
        }
    }

    /// Closes the worker's stdin, which stops it, and waits until it has ended.
    pub fn finish(mut self) -> Finished {
        drop(self.stdin.take());
        let mut stdout = String::new();
        let _ = self.stdout.read_to_string(&mut stdout);
        let stderr = self.stderr();
        let late = self.stop_watchdog();
        let status = self.child.wait().expect("wait for a worker");
        assert!(!late, "a worker hung and was killed\n{stdout}\n{stderr}");
        Finished {
            status,
            stdout,
            stderr,
        }
    }

    /// Sends the worker a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill(self.pid(), signal)?)
    }

    fn kill(&mut self) -> String {
        let _ = self.child.kill();
        let stderr = self.stderr();
        self.stop_watchdog();
        let _ = self.child.wait();
        stderr
    }

    fn stderr(&mut self) -> String {
        let reader = self.stderr.take();
        reader.map_or_else(String::new, |reader| reader.join().unwrap_or_default())
    }

    /// True when the deadline had passed. Called before the child is waited for, so that the number
    /// of another process is never killed.
    fn stop_watchdog(&mut self) -> bool {
        let Some((stop, watchdog)) = self.watchdog.take() else {
            return false;
        };
        let _ = stop.send(());
        watchdog.join().unwrap_or(true)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.watchdog.is_some() {
            self.kill();
        }
    }
}

impl Finished {
    /// True when it was killed by SIGKILL.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::SIGKILL as i32)
    }

    /// The result of a worker that must have succeeded.
    ///
    /// # Panics
    /// When it did not.
    pub fn result<T: DeserializeOwned>(&self) -> T {
        let Self {
            status,
            stdout,
            stderr,
        } = self;
        assert!(status.success(), "worker: {status}\n{stdout}\n{stderr}");
        let line = stdout.lines().find_map(|line| line.strip_prefix(RESULT));
        let result = line.unwrap_or_else(|| panic!("worker without result\n{stdout}\n{stderr}"));
        serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {result}"))
    }
}

/// In a worker: reports that it is ready and waits for the word.
pub fn ready_and_wait() -> anyhow::Result<()> {
    say(READY)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    anyhow::ensure!(!line.is_empty(), "stopped before the beginning");
    Ok(())
}

/// In a worker: waits until the parent closes stdin or writes something.
pub fn wait_for_parent() -> anyhow::Result<()> {
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// In a worker that goes on meanwhile: what the parent writes, until it closes stdin.
pub fn lines_of_parent() -> Receiver<()> {
    let (said, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.is_err() || said.send(()).is_err() {
                return;
            }
        }
    });
    lines
}

/// In a worker: prints a line.
pub fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}

/// Waits for the end of a worker that was killed just now.
///
/// # Panics
/// If it had ended by itself.
pub fn require_killed(worker: Worker) {
    let finished = worker.finish();
    if !finished.was_killed() {
        let (status, stderr) = (finished.status, finished.stderr);
        panic!("a process was not killed, it ended with {status}\n{stderr}");
    }
}
