//! Docker by its command, and containers that end with the test.

use std::io::Write;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::wait::until;

/// Parent of directories on the disk.
pub const DISK: &str = env!("CARGO_TARGET_TMPDIR");

/// Names the test process that made a container.
pub const LABEL: &str = "tetris.test";

/// Runs `docker` with these arguments, and returns what it printed.
pub fn docker(args: &[&str]) -> String {
    let output = try_docker(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn try_docker(args: &[&str]) -> Output {
    Command::new("docker").args(args).output().unwrap()
}

/// A name that no other container or image of this machine has.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("tetris-test-{}-{next}-{what}", std::process::id())
}

/// A directory on the disk, which is removed with this.
pub fn disk() -> TempDir {
    let name = format!("{}-", unique("disk"));
    let builder = &mut tempfile::Builder::new();
    builder.prefix(&name).tempdir_in(DISK).unwrap()
}

/// A started container.
pub struct Container {
    pub id: String,
}

impl Container {
    /// Starts one from `image`, with these options and this command; without a network, unless they say which.
    pub fn start(what: &str, image: &str, options: &[String], command: &[&str]) -> Self {
        let label = format!("{LABEL}={}", std::process::id());
        let name = unique(what);
        let mut args = vec!["run", "--detach", "--label", &label, "--name", &name];
        if !options
            .iter()
            .any(|option| option.starts_with("--network="))
        {
            args.push("--network=none");
        }
        args.extend(options.iter().map(String::as_str));
        args.push(image);
        args.extend(command);
        // What failed to start exists nonetheless.
        let made = Self { id: name.clone() };
        let id = docker(&args);
        std::mem::forget(made);
        Self { id }
    }

    /// Its first process, as the host numbers it.
    pub fn pid(&self) -> u32 {
        self.inspect("{{.State.Pid}}").parse().unwrap()
    }

    pub fn is_running(&self) -> bool {
        self.inspect("{{.State.Running}}") == "true"
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(try_docker(&["logs", &self.id]).stdout).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&try_docker(&["logs", &self.id]).stderr).into_owned()
    }

    /// Sends a signal to its first process.
    pub fn signal(&self, signal: &str) {
        docker(&["kill", "--signal", signal, &self.id]);
    }

    /// Waits for its end, and returns its exit code.
    pub fn ended(&self) -> i32 {
        until("the container's end", || (!self.is_running()).then_some(()));
        self.inspect("{{.State.ExitCode}}").parse().unwrap()
    }

    /// Starts it again.
    pub fn start_again(&self) {
        docker(&["start", &self.id]);
    }

    fn inspect(&self, format: &str) -> String {
        docker(&["inspect", "--format", format, &self.id])
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (out, err) = (self.stdout(), self.stderr());
            let tail = |text: &str| {
                let lines: Vec<_> = text.lines().rev().take(30).map(str::to_owned).collect();
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            };
            let (out, err) = (tail(&out), tail(&err));
            let _ = writeln!(std::io::stderr(), "--- {}\n{out}\n{err}", self.id);
        }
        let _gone = try_docker(&["rm", "--force", "--volumes", &self.id]);
    }
}

/// The reason there is no Docker for these tests, if there is none.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root, to mount and to see what containers hold".to_owned());
    }
    let answer = Command::new("docker")
        .args(["version", "--format", "{{.Server.Version}}"])
        .output();
    match answer {
        Err(error) => return Some(format!("no docker command: {error}")),
        Ok(output) if !output.status.success() => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().last().unwrap_or_default().to_owned();
            return Some(format!(
                "no Docker daemon answers (tests/docker.sh starts one): {last}"
            ));
        }
        Ok(_) => {}
    }
    sees_other_mounts().then(|| "the Docker daemon runs in another mount namespace".to_owned())
}

/// Directories mounted here mean nothing to a daemon in another mount namespace.
fn sees_other_mounts() -> bool {
    let Ok(pid) = std::fs::read_to_string("/run/docker.pid") else {
        return true;
    };
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    namespace(pid.trim()) != namespace("self")
}

/// Options like `--privileged` where this process may do all that root may do; elsewhere as much of it as the kernel grants.
pub fn privileged() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let status = read("/proc/self/status");
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let bounds = u64::from_str_radix(bounds.unwrap().trim(), 16).unwrap();
    let last: u32 = read("/proc/sys/kernel/cap_last_cap")
        .trim()
        .parse()
        .unwrap();
    let all = u64::MAX >> (63 - last);
    let missing = all & !bounds;
    if missing == 0 {
        return vec!["--privileged".to_owned()];
    }
    let mut options = vec!["--cap-add=ALL".to_owned()];
    let named = [
        (24, "SYS_RESOURCE"),
        (16, "SYS_MODULE"),
        (22, "SYS_BOOT"),
        (25, "SYS_TIME"),
    ];
    let dropped = named.iter().filter(|(bit, _)| missing & (1 << bit) != 0);
    options.extend(dropped.map(|(_, name)| format!("--cap-drop={name}")));
    options.extend(["seccomp", "apparmor"].map(|what| format!("--security-opt={what}=unconfined")));
    options
}
