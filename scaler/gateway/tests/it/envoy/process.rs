//! Processes: Envoy, and a gateway that can be killed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http_body_util::Full;
use tokio::process::{Child, Command};

use super::configuration::{Settings, configuration};
use crate::client::{send, whole};
use crate::replica::free_address;

/// Pause between two looks at a condition.
const LOOK: Duration = Duration::from_millis(10);

/// A running Envoy. It ends with this value.
pub struct Envoy {
    pub address: SocketAddr,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Envoy {
    pub async fn start(program: &Path, settings: &Settings<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = configuration(settings).to_string();
        std::fs::write(path("envoy.json"), text).unwrap();
        let mut process = Command::new(program)
            .arg("--config-path")
            .arg(path("envoy.json"))
            .arg("--admin-address-path")
            .arg(path("admin"))
            .arg("--log-path")
            .arg(path("log"))
            .args([
                "--log-level",
                "warn",
                "--concurrency",
                "2",
                "--disable-hot-restart",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let admin: SocketAddr = loop {
            if let Some(status) = process.try_wait().unwrap() {
                let log = std::fs::read_to_string(path("log")).unwrap_or_default();
                panic!("Envoy ended, {status}: {log}");
            }
            let text = std::fs::read_to_string(path("admin")).unwrap_or_default();
            match text.trim().parse() {
                Ok(address) => break address,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        };
        let address = loop {
            if let Some(address) = listener(admin).await {
                break address;
            }
            tokio::time::sleep(LOOK).await;
        };
        Self {
            address,
            _process: process,
            _folder: folder,
        }
    }
}

/// Address of Envoy's listener, once it accepts clients.
async fn listener(admin: SocketAddr) -> Option<SocketAddr> {
    let page = async |path: &str| {
        let request = hyper::Request::get(path).header("host", "envoy");
        let response = send(admin, request.body(Full::default()).unwrap())
            .await
            .ok()?;
        Some(whole(response).await)
    };
    if page("/ready").await?.status != hyper::StatusCode::OK {
        return None;
    }
    let listeners = page("/listeners?format=json").await?.body;
    let listeners: serde_json::Value = serde_json::from_str(&listeners).ok()?;
    let at = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
    let port = u16::try_from(at["port_value"].as_u64()?).ok()?;
    Some(([127, 0, 0, 1], port).into())
}

/// A gateway in its own process.
pub struct Process {
    pub picker: SocketAddr,
    file: PathBuf,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Process {
    pub async fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        std::fs::write(&file, text).unwrap();
        // Given again after a kill, so the test needs to know it.
        let picker = free_address();
        let child = run(&file, picker);
        let this = Self {
            picker,
            file,
            child,
            _folder: folder,
        };
        this.listens().await;
        this
    }

    /// Kills it without a word.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Starts it again at the same address.
    pub async fn again(&mut self) {
        self.child = run(&self.file, self.picker);
        self.listens().await;
    }

    async fn listens(&self) {
        while tokio::net::TcpStream::connect(self.picker).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn run(file: &Path, picker: SocketAddr) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tetris-gateway"))
        .args([
            "run",
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ])
        .arg("--config")
        .arg(file)
        .arg("--picker-listen")
        .arg(picker.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}
