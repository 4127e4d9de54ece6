//! A gateway with a configuration file that a test writes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use http_body_util::Full;
use tetris_gateway::cli::{Cli, Command};
use tetris_gateway::run::{Addresses, run_until};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client;

pub struct Gateway {
    pub address: SocketAddr,
    pub own: SocketAddr,
    pub picker: SocketAddr,
    path: PathBuf,
    _folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Text of a function with instances of a capacity. It serves all paths, unless the fields say which.
pub fn function(name: &str, fields: &str, instances: &[SocketAddr], concurrency: u32) -> String {
    let paths = if fields.contains("paths =") {
        ""
    } else {
        "paths = [\"/**\"]\n"
    };
    let mut text = format!("[function.{name}]\nslo = \"1s\"\nslow_start = 0\n{paths}{fields}\n");
    for address in instances {
        write!(
            text,
            "[[function.{name}.instance]]\naddress = \"{address}\"\nconcurrency = {concurrency}\nlatency = \"100ms\"\n"
        )
        .unwrap();
    }
    text
}

impl Gateway {
    pub async fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, text).unwrap();
        let shown = path.to_str().unwrap();
        let cli = Cli::parse_from([
            "tetris-gateway",
            "run",
            "--config",
            shown,
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
            "--picker-listen",
            "127.0.0.1:0",
        ]);
        let Command::Run(args) = cli.command else {
            unreachable!()
        };
        let (stop, stopped) = oneshot::channel();
        let (told, addresses) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            run_until(&args, stop, |addresses| told.send(addresses).unwrap())
                .await
                .unwrap();
        });
        let Addresses {
            clients,
            own,
            picker,
        } = addresses.await.unwrap();
        Self {
            address: clients,
            own,
            picker: picker.unwrap(),
            path,
            _folder: folder,
            stop: Some(stop),
            task,
        }
    }

    /// Writes the file again, and waits until the gateway shows it: `holds` of the page /loads.
    pub async fn configure(&self, text: &str, holds: impl Fn(&serde_json::Value) -> bool) {
        std::fs::write(&self.path, text).unwrap();
        self.eventually(holds).await;
    }

    /// Waits until `holds` of the page /loads.
    pub async fn eventually(&self, holds: impl Fn(&serde_json::Value) -> bool) {
        while !holds(&self.loads().await) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until as many requests of a function have arrived.
    pub async fn arrived(&self, function: &str, count: usize) {
        let line = format!(
            "tetris_gateway_requests_total{{namespace=\"\",function=\"{function}\"}} {count}\n"
        );
        while !self.page("/metrics").await.contains(&line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn loads(&self) -> serde_json::Value {
        serde_json::from_str(&self.page("/loads").await).unwrap()
    }

    pub async fn page(&self, path: &str) -> String {
        let request = hyper::Request::get(path)
            .header("host", "gateway")
            .body(Full::default())
            .unwrap();
        client::whole(client::send(self.own, request).await.unwrap())
            .await
            .body
    }

    /// Asks it to stop.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    pub async fn ended(self) {
        self.task.await.unwrap();
    }
}
