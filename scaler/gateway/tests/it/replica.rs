//! A gateway in a process of its own.

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
    process: Child,
}

impl Replica {
    pub fn start(path: &Path, address: SocketAddr, own: SocketAddr) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"));
        command
            .args(["run", "--log", "error", "--config"])
            .arg(path);
        command.args([
            "--listen",
            &address.to_string(),
            "--metrics-listen",
            &own.to_string(),
        ]);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        Self {
            address,
            own,
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
