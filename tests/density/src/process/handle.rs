//! The parent's side: one worker process, with a deadline for every answer, always reaped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pipes::{self, Tail};
use super::protocol::{LoadTimes, Reply, Request, WORKER};
use super::python::Python;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::methods::Loader;

/// Interval at which a wait checks for an interruption.
const POLL: Duration = Duration::from_millis(100);
/// Time limit for a worker to end once its input is closed.
const GRACE: Duration = Duration::from_secs(5);

/// Starts workers.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// This executable.
    pub program: PathBuf,
    /// Interpreter of the workers with PyTorch.
    pub python: Python,
    /// Timeout of one answer.
    pub deadline: Duration,
}

/// A live worker. Its drop ends the process.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
    stderr: Tail,
    readers: Vec<JoinHandle<()>>,
    deadline: Duration,
}

impl Launcher {
    /// Starts a worker for a loader, and waits until it is ready for requests.
    pub fn start(&self, loader: Loader) -> Result<Worker> {
        let mut command = if loader.needs_python() {
            self.python.worker(loader)
        } else {
            let mut command = Command::new(&self.program);
            command.arg(WORKER);
            command
        };
        let program = PathBuf::from(command.get_program());
        let failed = || Error::io("start", &program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed()(std::io::Error::other("no pipes")));
        };
        let (replies, stdout_reader) = pipes::lines(stdout);
        let (stderr, stderr_reader) = Tail::follow(stderr);
        let mut worker = Worker {
            input: child.stdin.take(),
            child,
            replies,
            stderr,
            readers: vec![stdout_reader, stderr_reader],
            deadline: self.deadline,
        };
        match worker.receive("start")? {
            Reply::Ready => Ok(worker),
            other => Err(worker.unexpected("start", &other)),
        }
    }
}

impl Worker {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Moves the worker into a cgroup.
    pub fn join(&mut self, procs: &Path) -> Result<()> {
        let request = Request::Join {
            procs: procs.to_path_buf(),
        };
        match self.ask(&request)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(request.verb(), &other)),
        }
    }

    /// Loads the files, touches every page and makes the first pass.
    pub fn load(
        &mut self,
        loader: Loader,
        files: &[PathBuf],
        store: Option<&Path>,
    ) -> Result<LoadTimes> {
        let request = Request::Load {
            loader,
            files: files.to_vec(),
            store: store.map(Path::to_path_buf),
        };
        match self.ask(&request)? {
            Reply::Loaded(times) => Ok(times),
            other => Err(self.unexpected(request.verb(), &other)),
        }
    }

    /// Makes passes; returns their durations in nanoseconds and the checksum.
    pub fn pass(&mut self, count: u32) -> Result<(Vec<u64>, String)> {
        let request = Request::Pass { count };
        match self.ask(&request)? {
            Reply::Passed { pass_ns, checksum } => Ok((pass_ns, checksum)),
            other => Err(self.unexpected(request.verb(), &other)),
        }
    }

    /// Returns true if the process has ended. Does not wait.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process, like the kernel for lack of memory.
    pub fn kill(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.child.kill();
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        let line =
            serde_json::to_string(request).map_err(|error| Error::Usage(error.to_string()))?;
        // A dead worker is recognized by its missing answer.
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
        self.receive(request.verb())
    }

    fn receive(&mut self, doing: &'static str) -> Result<Reply> {
        let begin = Instant::now();
        let line = loop {
            match self.replies.recv_timeout(POLL) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => return Err(self.death(doing)),
                Err(RecvTimeoutError::Timeout) if interrupt::raised() => {
                    return Err(Error::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() >= self.deadline => {
                    self.kill();
                    return Err(Error::Deadline {
                        pid: self.pid(),
                        doing,
                        seconds: self.deadline.as_secs(),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Failed { reason }) => Err(Error::Refused {
                pid: self.pid(),
                doing,
                reason,
            }),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Error::Protocol {
                pid: self.pid(),
                doing,
                line,
            }),
        }
    }

    fn unexpected(&self, doing: &'static str, reply: &Reply) -> Error {
        Error::Protocol {
            pid: self.pid(),
            doing,
            line: format!("{reply:?}"),
        }
    }

    fn death(&mut self, doing: &'static str) -> Error {
        let status = self
            .reap()
            .map_or_else(|| "unknown status".to_owned(), |status| status.to_string());
        // A terminal interrupts the workers too.
        if interrupt::raised() {
            return Error::Interrupted;
        }
        Error::Died {
            pid: self.pid(),
            status,
            doing,
            stderr: self.stderr.text(),
        }
    }

    /// Closes the input, waits for a moment, then kills the process.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.input = None;
        let begin = Instant::now();
        while begin.elapsed() < GRACE {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.readers
                        .drain(..)
                        .for_each(|reader| drop(reader.join()));
                    return Some(status);
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(_) => break,
            }
        }
        self.kill();
        let status = self.child.wait().ok();
        self.readers
            .drain(..)
            .for_each(|reader| drop(reader.join()));
        status
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.reap();
    }
}
