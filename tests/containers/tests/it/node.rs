//! The node's containers: the processes of the daemon, with the users, rights and mounts that their DaemonSet gives them.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tetris_store_layout::{ObjectEntry, Store};

use crate::docker::{Container, privileged};
use crate::host::Host;
use crate::image;
use crate::kubelet::Kubelet;
use crate::wait::until_so;
use tetris_test_support::api::uid_of;

const MIB: u64 = 1 << 20;
const DRIVER: &str = "csi.tetris.dev";
/// Users of the processes that have their own socket.
const USERS: [(&str, u32); 2] = [("broker", 9460), ("cluster", 9461)];

/// Settings of the tmpfs, and the fate of unmapped objects.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub mib: u64,
    pub inodes: u64,
    /// True if unmapped objects go after some seconds; else they go when a load needs their room.
    pub expires: bool,
}

pub struct Node<'a> {
    pub host: &'a Host,
    pub kubelet: Kubelet,
    /// The broker's: the pages of the stores are charged to it.
    pub container: Container,
    others: [Container; 2],
}

impl<'a> Node<'a> {
    /// Starts one, and waits until the kubelet could use it.
    pub fn start(host: &'a Host, settings: Settings) -> Self {
        configure(host, settings);
        let socket = host.kubelet().join("plugins").join(DRIVER).join("csi.sock");
        let kubelet = Kubelet::new(socket);
        reach(host, &kubelet);
        for (name, user) in USERS {
            let sockets = host.sockets().join(name);
            fs::create_dir_all(&sockets).unwrap();
            chown(&sockets, Some(user), Some(user)).unwrap();
        }
        let node = Self {
            host,
            kubelet,
            container: broker(host),
            others: [volumes(host), cluster(host)],
        };
        node.wait();
        node
    }

    /// Puts another container in the place of this one, as a rolling update does.
    pub fn replace(self, settings: Settings) -> Self {
        for container in self.containers() {
            container.signal("TERM");
        }
        for container in self.containers() {
            let ended = container.ended();
            assert_eq!(ended, 0, "{}", container.stderr());
        }
        let host = self.host;
        drop(self);
        Self::start(host, settings)
    }

    /// Has it read another configuration, as it does when its ConfigMap changes.
    pub fn reconfigure(&self, settings: Settings) {
        configure(self.host, settings);
        for container in self.containers() {
            container.signal("HUP");
        }
    }

    /// Ends all as the OOM killer would.
    pub fn kill(&self) {
        for container in self.containers() {
            container.signal("KILL");
        }
        for container in self.containers() {
            container.ended();
        }
    }

    pub fn start_again(&self) {
        for container in self.containers() {
            container.start_again();
        }
        self.wait();
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.others.iter().chain([&self.container])
    }

    fn wait(&self) {
        until_so("the driver answers, and the others", || {
            for container in self.containers() {
                assert!(container.is_running(), "{}", container.stderr());
            }
            let listens = |name: &str| {
                let socket = self.host.sockets().join(name).join("socket");
                UnixStream::connect(socket).is_ok()
            };
            USERS.iter().all(|(name, _)| listens(name)) && self.kubelet.probe()
        });
    }

    /// A volume of a pod of `namespace`; where it is on the host.
    pub fn publish(&self, pod: &str, namespace: &str) -> PathBuf {
        let (inside, outside) = self.target(pod);
        fs::create_dir_all(outside.parent().unwrap()).unwrap();
        self.kubelet.publish(&inside, namespace);
        outside
    }

    pub fn unpublish(&self, pod: &str) {
        self.kubelet.unpublish(&self.target(pod).0);
    }

    /// In the node's container and on the host.
    fn target(&self, pod: &str) -> (PathBuf, PathBuf) {
        let relative = format!("pods/{pod}/volumes/kubernetes.io~csi/tetris-store/mount");
        let inside = Path::new("/var/lib/kubelet").join(&relative);
        (inside, self.host.kubelet().join(relative))
    }

    /// The store of a namespace, as the host sees it.
    pub fn store(&self, namespace: &str) -> Store {
        Store::open(self.host.stores().join(directory(namespace))).unwrap()
    }

    /// Waits until the daemon takes files in this store.
    pub fn wait_for_socket(&self, namespace: &str) {
        let socket = self.host.stores().join(directory(namespace)).join("daemon");
        until_so("the store's socket", || {
            UnixStream::connect(&socket).is_ok()
        });
    }

    /// Descriptors of the daemon, and bytes that are its own alone.
    pub fn resources(&self) -> (usize, u64) {
        let process = PathBuf::from(format!("/proc/{}", self.container.pid()));
        let descriptors = fs::read_dir(process.join("fd")).unwrap().count();
        let status = fs::read_to_string(process.join("status")).unwrap();
        let anonymous = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = anonymous.unwrap().trim().trim_end_matches(" kB");
        (descriptors, kib.parse::<u64>().unwrap() << 10)
    }
}

fn volume(from: &Path, to: &str) -> String {
    format!("--volume={}:{to}", from.display())
}

/// The container with privileges, and neither a network nor a token.
fn volumes(host: &Host) -> Container {
    let mut options = privileged();
    options.extend([
        volume(&host.tetris(), "/var/lib/tetris:rshared"),
        volume(&host.kubelet(), "/var/lib/kubelet:rshared"),
        volume(&host.sockets(), "/run/tetris:ro"),
    ]);
    start(host, "volumes", options)
}

/// The container with the stores, as their owner.
fn broker(host: &Host) -> Container {
    let options = vec![
        "--user=9460:9460".to_owned(),
        "--cap-drop=ALL".to_owned(),
        volume(&host.tetris(), "/var/lib/tetris:rslave"),
        volume(&host.sockets().join("broker"), "/run/tetris/broker"),
    ];
    start(host, "broker", options)
}

/// The container with the network.
fn cluster(host: &Host) -> Container {
    let options = vec![
        "--user=9461:9461".to_owned(),
        "--cap-drop=ALL".to_owned(),
        "--env=KUBECONFIG=/etc/tetris/kubeconfig".to_owned(),
        // The API server is a thread of the test.
        "--network=host".to_owned(),
        volume(&host.sockets().join("broker"), "/run/tetris/broker:ro"),
        volume(&host.sockets().join("cluster"), "/run/tetris/cluster"),
    ];
    start(host, "cluster", options)
}

fn start(host: &Host, process: &str, mut options: Vec<String>) -> Container {
    options.push(volume(&host.config(), "/etc/tetris:ro"));
    options.push("--env=NODE_NAME=node-1".to_owned());
    let command = [
        image::NODE,
        process,
        "--kubernetes",
        "--config",
        "/etc/tetris/node.toml",
    ];
    Container::start(process, &host.image.name, &options, &command)
}

/// The directory of a namespace's store.
pub fn directory(namespace: &str) -> String {
    format!("{namespace}.{}", uid_of(namespace, 1))
}

/// Names where the API server is.
fn reach(host: &Host, kubelet: &Kubelet) {
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}",
        kubelet.api
    );
    fs::write(host.config().join("kubeconfig"), text).unwrap();
}

/// The configuration of the DaemonSet, with shorter times.
fn configure(host: &Host, settings: Settings) {
    let (bytes, inodes) = (settings.mib * MIB, settings.inodes);
    let expiry = if settings.expires { "fixed" } else { "never" };
    let config = format!(
        r#"
interval_secs = 1
[mount]
path = "/var/lib/tetris/stores"
user = 9460
size_bytes = {bytes}
inodes = {inodes}
[csi.per_namespace]
path = "/var/lib/tetris/stores/{{namespace}}"
[policy.store]
keep_alive_secs = 1
expiry = "{expiry}"
expire_after_secs = 2
"#
    );
    fs::write(host.config().join("node.toml"), config).unwrap();
}

/// Objects of a store that someone holds, as their inodes.
pub fn held(store: &Store) -> Vec<u64> {
    let objects_held = objects(store)
        .into_iter()
        .filter(|object| store.is_held(&object.object).unwrap());
    let mut inodes: Vec<_> = objects_held.map(|object| object.inode).collect();
    inodes.sort_unstable();
    inodes
}

pub fn objects(store: &Store) -> Vec<ObjectEntry> {
    store.objects().unwrap().objects
}
