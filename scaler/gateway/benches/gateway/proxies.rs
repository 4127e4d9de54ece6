//! Proxies: configurations and processes.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::Settings;
use crate::target::Target;

/// A proxy with its rule for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Gateway,
    HaproxyLeast,
    HaproxyRound,
    /// With a weight and a maximum for each instance, as someone would write them who knows the
    /// profiles.
    HaproxyByHand,
    EnvoyLeast,
    EnvoyRound,
}

/// Rule for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The least loaded, as each program reckons it.
    Least,
    Round,
    ByHand,
}

impl Rule {
    pub const ALL: [Self; 3] = [Self::Least, Self::Round, Self::ByHand];
}

impl Kind {
    pub const fn rule(self) -> Rule {
        match self {
            Self::Gateway | Self::HaproxyLeast | Self::EnvoyLeast => Rule::Least,
            Self::HaproxyRound | Self::EnvoyRound => Rule::Round,
            Self::HaproxyByHand => Rule::ByHand,
        }
    }

    pub const ALL: [Self; 6] = [
        Self::Gateway,
        Self::HaproxyLeast,
        Self::HaproxyRound,
        Self::HaproxyByHand,
        Self::EnvoyLeast,
        Self::EnvoyRound,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "tetris-gateway",
            Self::HaproxyLeast => "HAProxy, least connections",
            Self::HaproxyRound => "HAProxy, round robin",
            Self::HaproxyByHand => "HAProxy, weights and maxima by hand",
            Self::EnvoyLeast => "Envoy, least requests",
            Self::EnvoyRound => "Envoy, round robin",
        }
    }

    fn program(self, settings: &Settings) -> &str {
        match self {
            Self::Gateway => &settings.gateway,
            Self::HaproxyLeast | Self::HaproxyRound | Self::HaproxyByHand => &settings.haproxy,
            Self::EnvoyLeast | Self::EnvoyRound => &settings.envoy,
        }
    }

    pub fn is_installed(self, settings: &Settings) -> bool {
        let mut command = Command::new(self.program(settings));
        let version = if self == Self::Gateway {
            "--version"
        } else {
            "-v"
        };
        let version = if matches!(self, Self::EnvoyLeast | Self::EnvoyRound) {
            "--version"
        } else {
            version
        };
        let ran = command
            .arg(version)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ran.is_ok_and(|status| status.success())
    }

    /// Starts it before these instances. The gateway knows the objective of a request, from its arrival to
    /// its answer; the others have no place for it.
    pub async fn start(
        self,
        settings: &Settings,
        targets: &[Target],
        objective: Duration,
    ) -> Result<Proxy> {
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let path = folder.path().join(match self {
            Self::Gateway => "gateway.toml",
            Self::EnvoyLeast | Self::EnvoyRound => "envoy.json",
            Self::HaproxyLeast | Self::HaproxyRound | Self::HaproxyByHand => "haproxy.cfg",
        });
        std::fs::write(&path, self.configuration(address, targets, objective)?)?;
        let mut command = Command::new(self.program(settings));
        self.arguments(&mut command, address, &path);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.name())?;
        let mut proxy = Proxy {
            address,
            child,
            _folder: folder,
        };
        while TcpStream::connect(address).is_err() {
            let ended = proxy.child.try_wait()?;
            ensure!(
                ended.is_none(),
                "{} ended at its start: {ended:?}",
                self.name()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(proxy)
    }

    fn arguments(self, command: &mut Command, address: SocketAddr, path: &Path) {
        match self {
            Self::Gateway => {
                command.args([
                    "run",
                    "--log",
                    "warn",
                    "--metrics-listen",
                    "127.0.0.1:0",
                    "--listen",
                ]);
                command.arg(address.to_string()).arg("--config").arg(path);
            }
            Self::EnvoyLeast | Self::EnvoyRound => {
                command
                    .args([
                        "--concurrency",
                        "2",
                        "--log-level",
                        "error",
                        "--disable-hot-restart",
                        "-c",
                    ])
                    .arg(path);
            }
            Self::HaproxyLeast | Self::HaproxyRound | Self::HaproxyByHand => {
                command.args(["-db", "-f"]).arg(path);
            }
        }
    }

    fn configuration(
        self,
        address: SocketAddr,
        targets: &[Target],
        objective: Duration,
    ) -> Result<String> {
        Ok(match self {
            Self::Gateway => gateway(targets, objective)?,
            Self::EnvoyLeast => envoy("LEAST_REQUEST", address, targets),
            Self::EnvoyRound => envoy("ROUND_ROBIN", address, targets),
            Self::HaproxyLeast => haproxy("leastconn", address, targets, |_| String::new())?,
            Self::HaproxyRound => haproxy("roundrobin", address, targets, |_| String::new())?,
            Self::HaproxyByHand => haproxy("leastconn", address, targets, |entry| {
                format!("weight {} maxconn {}", entry.weight, entry.slots().min(256))
            })?,
        })
    }
}

fn gateway(targets: &[Target], objective: Duration) -> Result<String> {
    let mut text = format!(
        "[limits]\nconnections_per_client = 20000\n\
         [function.m]\nslo = \"{}ms\"\nmodels = [\"m\"]\nslow_start = 0\nqueue = 100000\n",
        objective.as_millis()
    );
    for target in targets {
        let Target {
            address,
            batch,
            concurrency,
            latency_ms,
            batch_wait_ms,
            weight: _,
        } = target;
        write!(
            text,
            "[[function.m.instance]]\naddress = \"{address}\"\nbatch = {batch}\nconcurrency = {concurrency}\n\
             latency = \"{latency_ms}ms\"\nbatch_wait = \"{batch_wait_ms}ms\"\n"
        )?;
    }
    Ok(text)
}

fn haproxy(
    balance: &str,
    address: SocketAddr,
    targets: &[Target],
    more: impl Fn(&Target) -> String,
) -> Result<String> {
    let mut text = format!(
        "global\n  nbthread 2\n  maxconn 12000\n  no strict-limits\n\
         defaults\n  mode http\n  timeout client 60s\n  timeout server 60s\n  timeout connect 2s\n  timeout queue 60s\n  \
         http-reuse always\n\
         frontend in\n  bind {address}\n  default_backend instances\n\
         backend instances\n  balance {balance}\n"
    );
    for (number, target) in targets.iter().enumerate() {
        writeln!(
            text,
            "  server i{number} {} {}",
            target.address,
            more(target)
        )?;
    }
    Ok(text)
}

fn envoy(policy: &str, address: SocketAddr, targets: &[Target]) -> String {
    let socket = |address: SocketAddr| json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let endpoints: Vec<_> = targets
        .iter()
        .map(|target| json!({"endpoint": {"address": socket(target.address)}}))
        .collect();
    let most = json!([{"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000}]);
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{
            "name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "instances", "timeout": "60s"}}],
        }]},
        "http_filters": [{
            "name": "router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let document = json!({"static_resources": {
        "listeners": [{
            "address": socket(address),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        }],
        "clusters": [{
            "name": "instances", "type": "STATIC", "connect_timeout": "2s", "lb_policy": policy,
            "circuit_breakers": {"thresholds": most},
            "load_assignment": {"cluster_name": "instances", "endpoints": [{"lb_endpoints": endpoints}]},
        }],
    }});
    document.to_string()
}

/// A running proxy. It ends when this is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Proxy {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
