//! The operator's process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tetris_hostile::cgroup::Cgroup;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::whole::daemons::loopback;
use crate::whole::world::{DEADLINE, World, until};

/// Minimum duration of a lease, in seconds.
pub const LEASE: u64 = 15;

/// Flags for frequent passes.
const OFTEN: [&str; 2] = ["--interval-seconds=1", "--poll-seconds=1"];

pub struct Operator {
    child: Child,
    name: String,
    log: PathBuf,
    /// Address of its pages.
    pub pages: SocketAddr,
    /// Address of KEDA's external scaler.
    pub keda: SocketAddr,
    /// Start of the process.
    pub since: Instant,
}

impl World {
    /// Starts a replica with the name `name` in its requests.
    pub fn operator(&self, name: &str) -> Operator {
        self.operator_with(name, &OFTEN)
    }

    /// Starts a replica with these flags.
    pub fn operator_with(&self, name: &str, flags: &[&str]) -> Operator {
        self.start(name, flags, None)
    }

    /// Starts a replica in a cgroup.
    pub fn operator_in(&self, cgroup: &Cgroup, name: &str) -> Operator {
        self.start(name, &OFTEN, Some(cgroup))
    }

    fn start(&self, name: &str, flags: &[&str], cgroup: Option<&Cgroup>) -> Operator {
        const PROGRAM: &str = env!("CARGO_BIN_EXE_tetris-scaler");
        let dir = self.dir.path();
        let (configuration, log) = (dir.join(name), dir.join(format!("{name}.log")));
        let text = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}], users: [{{name: u, user: {{token: {name}}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}",
            self.server
        );
        std::fs::write(&configuration, text).unwrap();
        let address = loopback();
        let at = |port: u16| SocketAddr::new(address.into(), port);
        let prepare = |command: &mut Command| {
            command
                .env_clear()
                .env("KUBECONFIG", configuration)
                .env("POD_NAME", name)
                .args(["--log", "info,tetris_scaler=debug", "run"])
                .args(flags)
                .arg(format!("--lease-seconds={LEASE}"))
                .arg(format!("--prometheus-url=http://{}", self.prometheus))
                .arg(format!("--listen={}", at(9461)))
                .arg(format!("--keda-listen={}", at(9462)))
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(&log).unwrap());
        };
        let child = if let Some(cgroup) = cgroup {
            cgroup.start(PROGRAM, prepare)
        } else {
            let mut command = Command::new(PROGRAM);
            prepare(&mut command);
            command.spawn()
        };
        Operator {
            child: child.unwrap(),
            name: name.to_owned(),
            log,
            pages: at(9461),
            keda: at(9462),
            since: Instant::now(),
        }
    }
}

impl Operator {
    /// Kills it by SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Terminates it by SIGTERM, and waits for its end.
    pub async fn terminate(&mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let mut ended = None;
        until("the operator ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        })
        .await;
        ended.unwrap()
    }

    /// Number of passes so far.
    pub async fn passes(&self) -> u64 {
        self.metric("tetris_scaler_decision_seconds_count").await
    }

    /// Waits for `more` passes.
    pub async fn passes_more(&self, more: u64) {
        let (began, before) = (Instant::now(), self.passes().await);
        while self.passes().await < before + more {
            assert!(began.elapsed() < DEADLINE, "waited too long for passes");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns a metric without labels; zero if there is no answer.
    pub async fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics").await.unwrap_or_default();
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }

    pub async fn page(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.pages).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.pages);
        stream.write_all(request.as_bytes()).await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        Ok(page)
    }
}

impl Drop for Operator {
    #[expect(
        clippy::print_stdout,
        reason = "a test has failed, and this may say why"
    )]
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            println!("{}:\n{}", self.name, lines[last..].join("\n"));
        }
    }
}
