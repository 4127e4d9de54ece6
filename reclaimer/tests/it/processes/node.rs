//! A node: a kubelet's directory, an API server, and the processes of the daemon.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tetris_node::csi::CsiConfig;
use tetris_node::csi::wire::{
    NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    RegistrationStatus, RegistrationStatusResponse,
};
use tokio::runtime::Runtime;
use tonic::Status;

use crate::csi::fixture::{Host, PATIENCE, call_at, request};
use crate::running::{BROKER_USER, Processes};
use tetris_test_support::api::{Api, uid_of};
use tetris_test_support::settled::settle;

pub const MIB: u64 = 1 << 20;

/// Memory limit of the broker's container, which all processes know.
const LIMIT: (&str, &str) = ("TETRIS_MEMORY_LIMIT", "128MiB");

pub struct Node {
    pub processes: Processes,
    pub api: Api,
    pub host: Host,
    kubeconfig: PathBuf,
    _runtime: Runtime,
}

impl Node {
    /// None for who is not root. No process runs yet.
    pub fn new() -> Option<Self> {
        let host = Host::new()?;
        let (api, runtime) = (Api::new(), Runtime::new().unwrap());
        let server = runtime.block_on(api.serve());
        let dir = host.kubelet().parent().unwrap().to_owned();
        let kubeconfig = dir.join("kubeconfig");
        let text = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        fs::write(&kubeconfig, text).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_tetris-node"));
        let processes = Processes::new(&dir, program, &configuration(&host, ""));
        Some(Self {
            processes,
            api,
            host,
            kubeconfig,
            _runtime: runtime,
        })
    }

    /// With all three processes, once they serve.
    pub fn running() -> Option<Self> {
        let mut node = Self::new()?;
        for name in ["volumes", "cluster", "broker"] {
            node.start(name);
        }
        node.serves();
        Some(node)
    }

    /// Starts one of the processes.
    pub fn start(&mut self, name: &'static str) {
        let kubeconfig = self.kubeconfig.display().to_string();
        let environment: &[(&str, &str)] = match name {
            "cluster" => &[LIMIT, ("KUBECONFIG", &kubeconfig)],
            _ => &[LIMIT],
        };
        self.processes.start(name, environment);
    }

    /// Writes the configuration anew, with more lines in the table `mount`.
    pub fn configure(&self, mount: &str) {
        self.processes.configure(&configuration(&self.host, mount));
    }

    /// Waits until the kubelet's sockets and those of the running processes answer.
    pub fn serves(&mut self) {
        let registration = self.csi().registration_socket();
        let connects = |path: &Path| std::os::unix::net::UnixStream::connect(path).is_ok();
        self.processes
            .eventually("the kubelet's socket", |_| connects(&registration));
        for name in ["cluster", "broker"] {
            if self.processes.is_running(name) {
                let socket = self.processes.socket(name);
                self.processes
                    .eventually("its socket", |_| connects(&socket));
            }
        }
    }

    fn csi(&self) -> CsiConfig {
        self.host.config()
    }

    /// Directory of the stores.
    pub fn stores(&self) -> PathBuf {
        stores(&self.host)
    }

    /// Directory of a namespace's store.
    pub fn store(&self, namespace: &str) -> PathBuf {
        self.stores()
            .join(format!("{namespace}.{}", uid_of(namespace, 1)))
    }

    pub fn publish(&self, target: &Path, namespace: &str) -> Result<(), Status> {
        let method = "/csi.v1.Node/NodePublishVolume";
        let request = request(target, namespace);
        call_at::<_, NodePublishVolumeResponse>(self.csi().socket(), method, request).map(drop)
    }

    pub fn unpublish(&self, target: &Path) {
        let request = NodeUnpublishVolumeRequest {
            volume_id: "csi-1".to_owned(),
            target_path: target.display().to_string(),
        };
        let method = "/csi.v1.Node/NodeUnpublishVolume";
        let answer =
            call_at::<_, NodeUnpublishVolumeResponse>(self.csi().socket(), method, request);
        answer.unwrap();
    }

    /// Registers the driver, as the kubelet does.
    pub fn register(&self) {
        let status = RegistrationStatus {
            plugin_registered: true,
            error: String::new(),
        };
        let method = "/pluginregistration.Registration/NotifyRegistrationStatus";
        let socket = self.csi().registration_socket();
        call_at::<_, RegistrationStatusResponse>(socket, method, status).unwrap();
    }

    /// Address of the probes, at `cluster`.
    pub fn probes(&mut self) -> SocketAddr {
        self.processes.address("cluster", "probes")
    }

    /// Waits until `/readyz` answers this.
    pub fn answers_readyz(&mut self, expected: &str) {
        let probes = self.probes();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = get(probes, "/readyz");
            if answer.contains(expected) {
                return;
            }
            let logs = || self.processes.logs();
            assert!(
                Instant::now() < deadline,
                "{expected}: {answer}: {}",
                logs()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// A model's file, whose identity can be bound.
    pub fn model_file(&self) -> PathBuf {
        model_file(self.host.kubelet().parent().unwrap())
    }
}

fn stores(host: &Host) -> PathBuf {
    host.tmpfs().join("stores")
}

fn configuration(host: &Host, mount: &str) -> String {
    format!(
        "node = \"node-1\"\ninterval_secs = 1\nkubernetes.enabled = true\n\
         [network]\nprobes = \"127.0.0.1:0\"\n\
         [mount]\nuser = {BROKER_USER}\nreserve_bytes = 67108864\npath = \"{stores}\"\n{mount}\n\
         [csi]\nkubelet_dir = \"{kubelet}\"\n\
         [csi.per_namespace]\npath = \"{stores}/{{namespace}}\"\n",
        stores = stores(host).display(),
        kubelet = host.kubelet().display(),
    )
}

/// A page over TCP, with its head.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn model_file(dir: &Path) -> PathBuf {
    let path = dir.join("model.safetensors");
    let len = 3 * MIB;
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..len).map(|n| (n % 251) as u8));
    fs::write(&path, bytes).unwrap();
    settle(&path);
    path
}
