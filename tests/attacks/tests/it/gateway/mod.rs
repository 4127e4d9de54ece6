//! The gateway's program in a cgroup with the limit that it ships with, instances, and a client beside hostile ones.

mod instances;
mod victim;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use instances::Instances;
use tempfile::TempDir;
use tetris_attacks::gateway::FUNCTIONS;
use tetris_hostile::address::free_address;
use tetris_hostile::cgroup::Cgroup;
use tetris_hostile::memory::private_bytes;
pub use victim::GatewayVictim;

use crate::attacker::tell;
use crate::node::PATIENCE;
use crate::usage::MemoryWatch;

/// Memory limit of the shipped Deployment (`deploy/base/gateway/deployment.yaml`).
const LIMIT: u64 = 512 << 20;
/// Memory that the gateway may keep besides a fifth of that before: caches and arenas of the C library.
const KEPT: u64 = 32 << 20;
/// Requests before an attack: all parts of the gateway have been used.
const WARM: usize = 300;
/// Names another gateway to attack.
const ATTACKED: &str = "TETRIS_ATTACKED_GATEWAY";

/// A gateway, killed when dropped.
pub struct Gateway {
    pub address: SocketAddr,
    process: Child,
    /// Private memory after the first requests, in bytes.
    before: u64,
    _instances: Instances,
    _folder: TempDir,
    /// Declared late: it goes when the process has ended.
    _cgroup: Cgroup,
}

impl Gateway {
    /// Starts one; `None` where there is no cgroup, which is said.
    pub fn start() -> Option<Self> {
        let cgroup = match Cgroup::new("gateway", LIMIT) {
            Ok(cgroup) => cgroup,
            Err(reason) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED: limit of the gateway: {reason}");
                return None;
            }
        };
        let instances = Instances::start();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gateway.toml");
        std::fs::write(&config, configuration(&instances)).unwrap();
        let address = free_address();
        let program = std::env::var(ATTACKED);
        let program =
            program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tetris-attacks-gateway").into());
        let prepare = |command: &mut Command| {
            command
                .args(["run", "--log", "error", "--config"])
                .arg(&config)
                .args(["--listen", &address.to_string()])
                .args(["--metrics-listen", &free_address().to_string()])
                .stdout(Stdio::null());
        };
        let process = cgroup.start(program, prepare).unwrap();
        let mut gateway = Self {
            address,
            process,
            before: 0,
            _instances: instances,
            _folder: folder,
            _cgroup: cgroup,
        };
        gateway.eventually("it listens", |gateway| {
            std::net::TcpStream::connect(gateway.address).is_ok()
        });
        let mut victim = GatewayVictim::start(gateway.address);
        victim.requests(WARM);
        victim.stop();
        gateway.before = private_bytes(gateway.process.id());
        Some(gateway)
    }

    pub fn watch(&self) -> MemoryWatch {
        MemoryWatch::start(self.process.id())
    }

    /// Waits until it has as little memory as before.
    ///
    /// # Panics
    /// When it has not in time, or is gone.
    pub fn memory_returns(&mut self) {
        let most = self.before + self.before / 5 + KEPT;
        let memory = |gateway: &Self| private_bytes(gateway.process.id());
        self.eventually("its memory is back", |gateway| memory(gateway) <= most);
        let (before, now) = (self.before, memory(self));
        tell(&format!("the gateway: {before} bytes before, {now} after"));
    }

    /// Waits until `holds`.
    fn eventually(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            self.require_running();
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Fails if it is gone.
    pub fn require_running(&mut self) {
        let ended = self.process.try_wait().unwrap();
        assert_eq!(ended, None, "the gateway has ended");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Functions with instances, and one at zero. Limits and timeouts are the usual ones.
fn configuration(instances: &Instances) -> String {
    let function = |name: &str, fields: &str| {
        format!("[function.{name}]\nslo = \"1s\"\nslow_start = 0\n{fields}\n")
    };
    let instance = |name: &str, address: SocketAddr, concurrency: u32| {
        format!(
            "[[function.{name}.instance]]\naddress = \"{address}\"\nconcurrency = {concurrency}\nlatency = \"100ms\"\n"
        )
    };
    [
        function(FUNCTIONS.victim, ""),
        instance(FUNCTIONS.victim, instances.answering, 8),
        function(FUNCTIONS.flood, ""),
        instance(FUNCTIONS.flood, instances.flooding, 64),
        function(FUNCTIONS.zero, "queue = 100000"),
    ]
    .concat()
}
