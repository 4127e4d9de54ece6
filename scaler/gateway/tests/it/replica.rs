//! A gateway in a process of its own.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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
        Self::start_with(path, address, own, |_| {})
    }

    /// Starts it once `place` has put its process where it belongs.
    pub fn start_with(
        path: &Path,
        address: SocketAddr,
        own: SocketAddr,
        place: impl FnOnce(u32),
    ) -> Self {
        let program = std::env::var("TETRIS_SIEGE_PROGRAM");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tetris-gateway").to_owned());
        let picker = free_address();
        // It reads its limits when it starts: the shell waits until it is in its place.
        let mut command = Command::new("sh");
        command.args(["-c", "read place && exec \"$0\" \"$@\"", &program]);
        command
            .args(["run", "--log", "error", "--config"])
            .arg(path);
        command.args([
            "--listen",
            &address.to_string(),
            "--metrics-listen",
            &own.to_string(),
            "--picker-listen",
            &picker.to_string(),
        ]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = command.spawn().unwrap();
        place(process.id());
        let mut input = process.stdin.take().unwrap();
        input.write_all(b"taken\n").unwrap();
        Self {
            address,
            own,
            picker,
            process,
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

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// An address that nobody has. Its host is this process's own: the ports of others, who may open thousands
/// of connections meanwhile, are those of other hosts.
pub fn free_address() -> SocketAddr {
    let [low, high, ..] = std::process::id().to_le_bytes();
    std::net::TcpListener::bind((Ipv4Addr::new(127, 1, high, low), 0))
        .unwrap()
        .local_addr()
        .unwrap()
}
