//! A gateway in its own process.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
pub use tetris_hostile::address::free_address;
use tetris_hostile::cgroup::Cgroup;
use tokio::net::TcpStream;

use crate::client;

pub struct Replica {
    pub address: SocketAddr,
    pub own: SocketAddr,
    pub picker: SocketAddr,
    process: Child,
}

impl Replica {
    pub fn start(path: &Path, address: SocketAddr, own: SocketAddr) -> Self {
        let picker = free_address();
        let mut command = Command::new(program());
        prepare(&mut command, path, [address, own, picker]);
        Self {
            address,
            own,
            picker,
            process: command.spawn().unwrap(),
        }
    }

    /// Starts it with a collector of traces.
    pub fn start_traced(path: &Path, endpoint: &str, variables: &[(&str, &OsStr)]) -> Self {
        let [address, own, picker] = [free_address(), free_address(), free_address()];
        let mut command = Command::new(program());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        command.envs(variables.iter().copied());
        prepare(&mut command, path, [address, own, picker]);
        Self {
            address,
            own,
            picker,
            process: command.spawn().unwrap(),
        }
    }

    /// Starts it in a cgroup.
    pub fn start_in(cgroup: &Cgroup, path: &Path, address: SocketAddr, own: SocketAddr) -> Self {
        let picker = free_address();
        let prepare = |command: &mut Command| prepare(command, path, [address, own, picker]);
        Self {
            address,
            own,
            picker,
            process: cgroup.start(program(), prepare).unwrap(),
        }
    }

    pub async fn ready(&self) {
        while TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Most resident memory since the start, in bytes.
    pub fn most_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    pub fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    pub async fn ended(&mut self) {
        while self.process.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn page(&self, path: &str) -> String {
        let request = Request::get(path)
            .header("host", "gateway")
            .body(Full::default())
            .unwrap();
        client::whole(client::send(self.own, request).await.unwrap())
            .await
            .body
    }
}

fn program() -> String {
    let program = std::env::var("TETRIS_SIEGE_PROGRAM");
    program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tetris-gateway").to_owned())
}

fn prepare(command: &mut Command, path: &Path, [address, own, picker]: [SocketAddr; 3]) {
    command
        .args(["run", "--log", "error", "--config"])
        .arg(path)
        .args(["--listen", &address.to_string()])
        .args(["--metrics-listen", &own.to_string()])
        .args(["--picker-listen", &picker.to_string()])
        .stdout(Stdio::null());
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
