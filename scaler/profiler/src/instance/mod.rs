//! Processes of one instance, from start to end.
//!
//! A shell waits in a new process group until it is in its cgroup and bound to its CPUs, and then
//! executes the command. So no part of the command ever runs outside. A second shell, the guard,
//! waits for the profiler's end and kills the group: a killed profiler leaves no instance behind.

mod error;
mod log;
mod probe;
mod ready;

use std::net::{Ipv4Addr, TcpListener};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

pub use error::InstanceError;
use log::LogTail;
pub(crate) use probe::MemoryProbe;

use crate::cgroup::{Cgroup, Hierarchy, Limits};
use crate::command::Placement;
use crate::cpus::CpuList;
use crate::processes;
use crate::setting::Setting;

const WAIT_FOR_GO: &str = r#"IFS= read -r go || exit 125; exec "$@" </dev/null"#;
const GUARD: &str = r#"IFS= read -r never; kill -s KILL -- "-$1""#;
/// Time that the kernel must end a killed process.
const DEAD_WITHIN: Duration = Duration::from_secs(10);

/// Placement of an instance.
#[derive(Clone, Debug)]
pub(crate) enum Confinement {
    /// In its own cgroup, with limits.
    Cgroup(Hierarchy, Limits),
    /// Bound to CPUs, without a cgroup.
    Bound(CpuList),
    /// Unrestricted, for starts that are not measured.
    Free,
}

impl Confinement {
    fn cgroup(&self) -> Result<Option<Cgroup>, InstanceError> {
        match self {
            Self::Cgroup(hierarchy, limits) => Ok(Some(Cgroup::create(hierarchy, limits)?)),
            Self::Bound(_) | Self::Free => Ok(None),
        }
    }
}

/// Processes of one start of the command. Dropping it kills them all.
#[derive(Debug)]
pub(crate) struct Instance {
    child: Child,
    guard: Child,
    group: Pid,
    /// Removed after the group is killed: fields are dropped after `drop` returns.
    cgroup: Option<Arc<Cgroup>>,
    log: LogTail,
    port: u16,
}

impl Instance {
    /// Starts `command` for `setting` in `place`.
    pub(crate) async fn start(
        command: &[String],
        setting: Setting,
        place: &Confinement,
    ) -> Result<Self, InstanceError> {
        let placement = Placement {
            setting,
            port: free_port()?,
        };
        let arguments = placement.arguments(command);
        let program = arguments.first().ok_or(InstanceError::NoCommand)?.clone();
        let failed = |source| InstanceError::Start {
            what: format!("`{program}`"),
            source,
        };
        let child = shell(WAIT_FOR_GO)
            .arg("tetris-profile")
            .args(&arguments)
            .envs(placement.environment())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let process = child.id().unwrap_or(0);
        let instance = Self {
            guard: guard(process)?,
            group: Pid::from_raw(i32::try_from(process).unwrap_or(0)),
            log: LogTail::default(),
            cgroup: place.cgroup()?.map(Arc::new),
            port: placement.port,
            child,
        };
        instance.confine(process, place)?;
        instance.go().await.map_err(failed)
    }

    fn confine(&self, process: u32, place: &Confinement) -> Result<(), InstanceError> {
        match (&self.cgroup, place) {
            (Some(cgroup), Confinement::Cgroup(_, limits)) => {
                cgroup.add(process)?;
                if !cgroup.has_cpuset() {
                    limits.cpus.bind(process)?;
                }
            }
            (_, Confinement::Bound(cpus)) => cpus.bind(process)?,
            _ => {}
        }
        Ok(())
    }

    async fn go(mut self) -> std::io::Result<Self> {
        self.log.follow(self.child.stdout.take());
        self.log.follow(self.child.stderr.take());
        if let Some(mut stdin) = self.child.stdin.take() {
            stdin.write_all(b"go\n").await?;
        }
        Ok(self)
    }

    /// Port that the instance listens on.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns a probe of its memory. The cgroup stays until the probe is dropped too.
    pub(crate) fn probe(&self) -> MemoryProbe {
        match &self.cgroup {
            Some(cgroup) => MemoryProbe::Cgroup(Arc::clone(cgroup)),
            None => MemoryProbe::of_group(self.group.as_raw()),
        }
    }

    /// Returns its processes: those in the cgroup, or in the process group.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.cgroup {
            Some(cgroup) => cgroup.processes(),
            None => processes::of_group(self.group.as_raw()),
        }
    }

    /// Waits until the instance ends, and returns that as an error. The future is cancel-safe.
    pub(crate) async fn ended(&mut self, doing: &'static str) -> InstanceError {
        match self.child.wait().await {
            Ok(status) => self.exited(status, doing).await,
            Err(source) => InstanceError::Start {
                what: "a wait for the instance".to_owned(),
                source,
            },
        }
    }

    async fn exited(&self, status: ExitStatus, doing: &'static str) -> InstanceError {
        // Its last output may still be in the pipe.
        tokio::time::sleep(Duration::from_millis(50)).await;
        InstanceError::Exited {
            status,
            doing,
            log: self.log.text(),
        }
    }

    /// Returns the end of its output.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Group 0 would be the profiler's own. A group keeps its number while it has members, even
        // without its leader; without members the signal reaches no process.
        if self.group.as_raw() > 1 {
            let _gone = killpg(self.group, Signal::SIGKILL);
        }
        let _dead = self.guard.start_kill();
        let deadline = Instant::now() + DEAD_WITHIN;
        let mut both = [&mut self.child, &mut self.guard];
        while both
            .iter_mut()
            .any(|entry| matches!(entry.try_wait(), Ok(None)))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Creates a shell in its own process group, which is killed when dropped.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .stdin(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}

fn guard(process: u32) -> Result<Child, InstanceError> {
    let mut command = shell(GUARD);
    command
        .args(["tetris-profile-guard", &process.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map_err(|source| InstanceError::Start {
        what: "the guard `/bin/sh`".to_owned(),
        source,
    })
}

/// Returns a port that was free a moment ago. If another process takes it meanwhile, the instance
/// fails with an error.
fn free_port() -> Result<u16, InstanceError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(InstanceError::Port)?;
    let address = listener.local_addr().map_err(InstanceError::Port)?;
    Ok(address.port())
}
