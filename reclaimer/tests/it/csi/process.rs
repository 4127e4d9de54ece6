//! The command `tetris-node run` as the DaemonSet runs it: it mounts, makes stores for namespaces,
//! and serves the kubelet.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tetris_agent::Agent;
use tetris_agent::daemon::{RoomOutcome, make_room};
use tetris_agent::doctor::{Status as Health, Subjects, diagnose};
use tetris_agent::store_location::StoreLocation;
use tetris_node::csi::wire::{
    NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    RegistrationStatus, RegistrationStatusResponse,
};
use tetris_store_layout::Store;
use tetris_wire::daemon::RoomReason;
use tokio::runtime::Runtime;
use tonic::Status;

use crate::api::{Api, uid_of};
use crate::csi::calls::expect_read_only;
use crate::csi::fixture::{Host, PATIENCE, call_at, request};
use crate::settled::settle;

const MIB: u64 = 1 << 20;

pub struct Daemon {
    child: Child,
    log: PathBuf,
}

/// A cluster whose API server is reached over HTTP, as long as this is there.
pub struct Cluster {
    pub api: Api,
    _runtime: Runtime,
}

impl Cluster {
    pub fn start(host: &Host) -> Self {
        let (api, runtime) = (Api::new(), Runtime::new().unwrap());
        let server = runtime.block_on(api.serve());
        let kubeconfig = host.kubelet().with_file_name("kubeconfig");
        let text = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        fs::write(&kubeconfig, text).unwrap();
        Self {
            api,
            _runtime: runtime,
        }
    }
}

impl Daemon {
    pub fn start(config: &Path) -> Self {
        let log = config.with_extension("log");
        let child = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
            .env("KUBECONFIG", config.with_file_name("kubeconfig"))
            .args(["run", "--kubernetes", "--node", "node-1", "--memory-limit"])
            .arg((128 * MIB).to_string())
            .arg("--config")
            .arg(config)
            .stderr(Stdio::from(fs::File::create(&log).unwrap()))
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn eventually(&mut self, what: &str, mut holds: impl FnMut(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.log()) {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "waiting for {what}: {}", self.log());
            assert!(Instant::now() < deadline, "{what}: {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub fn serves(&mut self, host: &Host) {
        let socket = host.config().registration_socket();
        self.eventually("the kubelet's socket", |_| {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Address of its HTTP server.
    pub fn address(&self) -> String {
        let log = self.log();
        let address = log.split("address=").nth(1).expect(&log);
        address.lines().next().unwrap().trim().to_owned()
    }

    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits for an answer: at first no pass has ended, and a registration takes effect after it
    /// was acknowledged.
    pub fn answers_readyz(&self, expected: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.page("/readyz");
            if answer.contains(expected) {
                return;
            }
            assert!(Instant::now() < deadline, "{expected}: {answer}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}: {}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub fn configure(host: &Host, mount: &str) -> PathBuf {
    let path = host.kubelet().with_file_name("node.toml");
    let stores = host.tmpfs().join("stores");
    let text = format!(
        "interval_secs = 1\nlisten = \"127.0.0.1:0\"\n\
         [mount]\nreserve_bytes = 67108864\npath = \"{stores}\"\n{mount}\n\
         [csi]\nkubelet_dir = \"{kubelet}\"\n\
         [csi.per_namespace]\npath = \"{stores}/{{namespace}}\"\n",
        stores = stores.display(),
        kubelet = host.kubelet().display(),
    );
    fs::write(&path, text).unwrap();
    path
}

pub fn publish(host: &Host, target: &Path, namespace: &str) -> Result<(), Status> {
    let method = "/csi.v1.Node/NodePublishVolume";
    let socket = host.config().socket();
    call_at::<_, NodePublishVolumeResponse>(socket, method, request(target, namespace)).map(drop)
}

pub fn register(host: &Host) {
    let status = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let method = "/pluginregistration.Registration/NotifyRegistrationStatus";
    let socket = host.config().registration_socket();
    call_at::<_, RegistrationStatusResponse>(socket, method, status).unwrap();
}

fn unpublish(host: &Host, target: &Path) {
    let request = NodeUnpublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: target.display().to_string(),
    };
    let method = "/csi.v1.Node/NodeUnpublishVolume";
    call_at::<_, NodeUnpublishVolumeResponse>(host.config().socket(), method, request).unwrap();
}

pub fn model_file(dir: &Path) -> PathBuf {
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

fn size_of(path: &Path) -> u64 {
    let found = nix::sys::statvfs::statvfs(path).unwrap();
    found.blocks() * found.fragment_size()
}

#[test]
fn pods_share_through_the_volume_and_a_restart_disturbs_nobody() {
    let Some(host) = Host::new() else { return };
    let _cluster = Cluster::start(&host);
    let config = configure(&host, "");
    let stores = host.tmpfs().join("stores");
    let mut daemon = Daemon::start(&config);
    daemon.serves(&host);
    assert_eq!(size_of(&stores), 64 * MIB, "the limit less the reserve");
    daemon.answers_readyz("has not registered the CSI driver");
    register(&host);
    daemon.answers_readyz("HTTP/1.1 200");
    let (pod, other) = (host.target("pod"), host.target("other"));
    publish(&host, &pod, "blue").unwrap();
    expect_read_only(&pod);
    // A pod that starts at once finds the daemon listening.
    assert!(pod.join("daemon").exists(), "{}", daemon.log());
    // Root of a pod is not the node's root.
    let outcome = make_room(&pod.join("daemon"), 4096, 1, PATIENCE);
    let RoomOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(refusal.reason, RoomReason::NOT_ALLOWED);
    // One volume, of the kind that this kernel has.
    let kinds = ["\"idmapped\":1,\"plain\":0", "\"idmapped\":0,\"plain\":1"];
    let deadline = Instant::now() + PATIENCE;
    while !kinds
        .iter()
        .any(|kind| daemon.page("/status").contains(kind))
    {
        assert!(Instant::now() < deadline, "{}", daemon.page("/status"));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // As the pod's user sees it.
    let diagnosis = diagnose(&StoreLocation::named(&pod), &Subjects::default());
    let store = &diagnosis.sections[0];
    assert!(store.status() < Health::Failure, "{store:?}");
    for name in ["owner", "publish"] {
        let check = store.checks.iter().find(|check| check.name == name);
        assert_eq!(check.unwrap().status, Health::Ok, "{check:?}");
    }
    let file = model_file(host.kubelet().parent().unwrap());
    let agent = Agent::open_store(&pod).unwrap();
    let model = agent.load(&file).unwrap();
    let store = Store::open(stores.join(format!("blue.{}", uid_of("blue", 1)))).unwrap();
    assert_eq!(store.usage().unwrap().capacity, 64 * MIB);
    let objects = || fs::read_dir(store.objects_dir()).unwrap().count();
    assert_eq!(objects(), 1, "the daemon published it: {}", daemon.log());

    daemon.stop();
    assert!(size_of(&stores) == 64 * MIB && objects() == 1);
    let mut daemon = Daemon::start(&config);
    daemon.serves(&host);
    daemon.eventually("the namespace's store is looked after again", |log| {
        log.contains("store opened") && log.contains("tmpfs adopted")
    });
    publish(&host, &other, "blue").unwrap();
    let again = Agent::open_store(&other).unwrap().load(&file).unwrap();
    let bytes = |model: &tetris_agent::Model| model.tensor("w").unwrap().bytes().to_vec();
    assert!(bytes(&model) == bytes(&again) && objects() == 1);

    configure(&host, "size_bytes = 33554432");
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("it is as large as configured", |_| {
        size_of(&stores) == 32 * MIB
    });
    configure(&host, "size_bytes = 2097152");
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("what is in use stays", |log| {
        log.contains("so it cannot shrink")
    });
    assert_eq!((size_of(&stores), objects()), (32 * MIB, 1));
    unpublish(&host, &pod);
    unpublish(&host, &other);
    drop((model, again));
    daemon.stop();
}

#[test]
fn with_its_namespace_a_store_goes_and_its_sockets_and_series_and_a_pod_keeps_what_it_maps() {
    let Some(host) = Host::new() else { return };
    let cluster = Cluster::start(&host);
    let config = configure(&host, "");
    let stores = host.tmpfs().join("stores");
    let mut daemon = Daemon::start(&config);
    daemon.serves(&host);
    let target = host.target("pod");
    publish(&host, &target, "blue").unwrap();
    let file = model_file(host.kubelet().parent().unwrap());
    let model = Agent::open_store(&target).unwrap().load(&file).unwrap();
    let weights = model.tensor("w").unwrap().bytes().to_vec();
    let uid = uid_of("blue", 1);
    let (name, own) = (format!("blue.{uid}"), stores.join(format!("blue.{uid}")));
    let says = |daemon: &Daemon, path: &str, text: &str| daemon.page(path).contains(text);
    assert!(says(&daemon, "/metrics", &format!("store=\"{name}\"")));
    assert!(says(&daemon, "/status", &format!("\"name\":\"{name}\"")));
    assert!(says(&daemon, "/inventory/objects", "\"name\":\"blue\""));
    assert!(
        daemon.log().contains(&format!("namespace_uid=\"{uid}\"")),
        "{}",
        daemon.log()
    );
    cluster.api.remove("blue");
    unpublish(&host, &target);
    // The volume is gone, and the process still maps the model.
    cluster.api.make("red");
    let other = host.target("other");
    publish(&host, &other, "red").unwrap();
    assert!(own.exists() && model.tensor("w").unwrap().bytes() == weights);
    drop(model);
    unpublish(&host, &other);
    daemon.eventually("the store goes", |_| !own.exists());
    for path in ["/metrics", "/status", "/inventory/objects"] {
        let name = if path.starts_with("/inventory") {
            "\"blue\""
        } else {
            &name
        };
        let deadline = Instant::now() + PATIENCE;
        while says(&daemon, path, name) {
            assert!(Instant::now() < deadline, "{path}: {}", daemon.page(path));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    let left: Vec<_> = fs::read_dir(&stores).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(!daemon.log().contains(" ERROR "), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_dry_run_mounts_nothing_and_serves_nobody() {
    let Some(host) = Host::new() else { return };
    let config = configure(&host, "size_bytes = 8388608");
    let output = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
        .args(["once", "--kubernetes", "--node", "node-1", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!host.tmpfs().join("stores").exists());
    assert!(!host.config().registration_socket().exists());
}

#[test]
fn a_mount_that_cannot_be_is_the_end_with_the_reason() {
    let Some(host) = Host::new() else { return };
    let config = configure(&host, "size_bytes = 8388608");
    let stores = host.tmpfs().join("stores");
    fs::create_dir(&stores).unwrap();
    fs::write(stores.join("file"), "somebody's").unwrap();
    let mut daemon = Daemon::start(&config);
    let ended = daemon.child.wait().unwrap();
    assert!(!ended.success());
    let log = daemon.log();
    assert!(log.contains("the directory is not empty"), "{log}");
    assert_eq!(fs::read(stores.join("file")).unwrap(), b"somebody's");
}
