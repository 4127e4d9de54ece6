//! The processes of one daemon, each as its own user in a child process of the real binary.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything here takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(1);

/// User and group of the broker, who owns the stores.
pub const BROKER_USER: u32 = 9460;
/// User and group of the process with the cluster's token.
pub const CLUSTER_USER: u32 = 9461;

/// The processes of one daemon. Those that run are killed with this.
pub struct Processes {
    dir: PathBuf,
    program: File,
    running: Vec<Running>,
}

struct Running {
    name: &'static str,
    child: Child,
}

impl Processes {
    /// None runs yet. `program` is `tetris-node`; `dir` gets the configuration, the logs and the
    /// sockets. Every user can reach it from now on.
    pub fn new(dir: &Path, program: &Path, configuration: &str) -> Self {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, user) in [
            ("broker", BROKER_USER),
            ("cluster", CLUSTER_USER),
            ("mirror", BROKER_USER),
        ] {
            let sockets = dir.join("run").join(name);
            fs::create_dir_all(&sockets).unwrap();
            chown(&sockets, Some(user), Some(user)).unwrap();
        }
        let this = Self {
            dir: dir.to_owned(),
            program: File::open(program).unwrap(),
            running: Vec::new(),
        };
        this.configure(configuration);
        this
    }

    /// Writes another configuration, which processes read when they start, or at a signal.
    pub fn configure(&self, text: &str) {
        let run = self.dir.join("run");
        let text = format!("{text}\n[processes]\ndirectory = \"{}\"\n", run.display());
        fs::write(self.dir.join("node.toml"), text).unwrap();
    }

    /// Starts one, with these variables of the environment.
    pub fn start(&mut self, name: &'static str, environment: &[(&str, &str)]) {
        assert!(!self.is_running(name));
        let mut log = File::options();
        let log = log.append(true).create(true).open(self.log_path(name));
        // The user of the process need not be able to reach the program by its path.
        let mut command = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        command
            .arg0("tetris-node")
            .args([name, "--config"])
            .arg(self.dir.join("node.toml"))
            .current_dir("/")
            .env_remove("KUBECONFIG")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(log.unwrap());
        let user = match name {
            "volumes" => None,
            "cluster" => Some(CLUSTER_USER),
            _ => Some(BROKER_USER),
        };
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let child = command.spawn().unwrap();
        self.running.push(Running { name, child });
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Log of one process.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.log_path(name)).unwrap_or_default()
    }

    /// Logs of all processes.
    pub fn logs(&self) -> String {
        let logs = ["volumes", "broker", "cluster", "mirror"]
            .map(|name| format!("\n{name}:\n{}", self.log(name)));
        logs.concat()
    }

    /// Waits until `holds`, while all that were started run.
    pub fn eventually(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            let logs = self.logs();
            for running in &mut self.running {
                let ended = running.child.try_wait().unwrap();
                assert_eq!(ended, None, "{}, waiting for {what}: {logs}", running.name);
            }
            assert!(Instant::now() < deadline, "{what}: {logs}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns true if it was started and neither stopped nor killed.
    pub fn is_running(&self, name: &str) -> bool {
        self.running.iter().any(|running| running.name == name)
    }

    /// Its process id.
    pub fn id(&self, name: &str) -> u32 {
        let mut running = self.running.iter();
        running.find(|found| found.name == name).unwrap().child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str, signal: Signal) {
        kill(Pid::from_raw(self.id(name).cast_signed()), signal).unwrap();
    }

    fn take(&mut self, name: &str) -> Running {
        let mut running = self.running.iter();
        let at = running.position(|found| found.name == name).unwrap();
        self.running.remove(at)
    }

    /// Kills it.
    pub fn kill(&mut self, name: &str) {
        let mut running = self.take(name);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Stops it, as the kubelet does.
    pub fn stop(&mut self, name: &str) {
        self.signal(name, Signal::SIGTERM);
        let ended = self.ended(name);
        assert!(ended.success(), "{name}: {ended}: {}", self.log(name));
    }

    /// Waits for its end.
    pub fn ended(&mut self, name: &str) -> ExitStatus {
        self.take(name).child.wait().unwrap()
    }

    /// Stops all.
    pub fn stop_all(mut self) {
        let names: Vec<_> = self.running.iter().map(|running| running.name).collect();
        for name in names {
            self.stop(name);
        }
    }

    /// The socket of a process.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.dir.join("run").join(name).join("socket")
    }

    /// A page of a process over its socket, with its head; empty when it is not there.
    pub fn page(&self, name: &str, path: &str) -> String {
        let mut answer = Vec::new();
        if let Ok(mut stream) = UnixStream::connect(self.socket(name)) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let _broken = stream.write_all(request.as_bytes());
            let _broken = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Address that its log has after `name=`, once it has it.
    pub fn address(&mut self, process: &'static str, name: &str) -> std::net::SocketAddr {
        let pattern = format!(" {name}=");
        let address = |this: &Self| {
            let log = this.log(process);
            // The latest start's.
            let rest = log
                .rsplit(&pattern)
                .next()
                .filter(|rest| rest.len() < log.len());
            rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        };
        self.eventually("its address", |this| address(this).is_some());
        address(self).unwrap()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for running in &mut self.running {
            let _ended = running.child.kill();
            let _reaped = running.child.wait();
        }
    }
}
