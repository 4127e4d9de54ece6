//! A node: its daemon's processes, its kubelet and API server as tests have them, and pods.

mod csi;
mod host;
mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::Host;
pub use host::Pod;
use processes::Processes;
use tetris_hostile::cgroup::Cgroup;

use crate::usage::Usage;
use tetris_test_support::api::{Api, uid_of};

/// Deadline for everything here. Shorter than the time for which the kernel lets an open wait for a lease (45 s).
pub const PATIENCE: Duration = Duration::from_secs(40);
/// The user of pods that say nothing else.
pub const USER: u32 = 4711;

/// Differences from the usual configuration.
#[derive(Debug, Default)]
pub struct Options {
    /// Size of the stores' tmpfs; 128 MiB by default.
    pub size_mib: Option<u64>,
    /// Lines of the table `mount`.
    pub mount: &'static str,
    /// Lines of the table `csi`.
    pub csi: &'static str,
    /// True for processes in cgroups with the memory limits of the shipped DaemonSet.
    pub has_shipped_limits: bool,
}

/// Memory limits of the containers in `deploy/base/node/daemon-set.yaml`, in bytes.
const SHIPPED_LIMITS: [(&str, u64); 3] = [
    ("volumes", 64 << 20),
    ("broker", 8 << 30),
    ("cluster", 256 << 20),
];

/// The cgroups of processes, by name; none without limits.
fn cgroups(options: &Options) -> Result<BTreeMap<&'static str, Cgroup>, String> {
    let limits = options.has_shipped_limits.then_some(SHIPPED_LIMITS);
    let limits = limits.into_iter().flatten();
    limits
        .map(|(name, limit)| Ok((name, Cgroup::new(name, limit)?)))
        .collect()
}

pub struct Node {
    processes: Processes,
    pub api: Api,
    /// Declared late: its mounts go when the processes have ended.
    host: Host,
}

impl Node {
    /// Starts a daemon registered with its kubelet; `None` for who is not root, which is said.
    pub fn start(options: &Options) -> Option<Self> {
        let host = Host::new()?;
        let cgroups = match cgroups(options) {
            Ok(cgroups) => cgroups,
            Err(reason) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED: limits of processes: {reason}");
                return None;
            }
        };
        let api = Api::new();
        let mut processes = Processes::start(&host, &api, options, cgroups);
        processes.eventually("the kubelet's sockets", || {
            let sockets = [host.csi().socket(), host.csi().registration_socket()];
            let connects = |path: &PathBuf| std::os::unix::net::UnixStream::connect(path).is_ok();
            sockets.iter().all(connects)
        });
        csi::register(&host.csi());
        let mut node = Self {
            processes,
            api,
            host,
        };
        node.becomes_ready();
        Some(node)
    }

    /// Waits until all of the daemon is ready.
    fn becomes_ready(&mut self) {
        self.eventually("readiness", |node| {
            node.page("/readyz")
                .is_ok_and(|page| page.starts_with("HTTP/1.1 200"))
        });
    }

    /// Kills the broker, as the kernel does for want of memory, and starts it again. Returns the time until it serves
    /// these pods and all of the daemon is ready.
    pub fn restart_broker(&mut self, pods: &[&Pod]) -> Duration {
        self.processes.restart("broker");
        let begun = Instant::now();
        for pod in pods {
            self.serves(pod);
        }
        self.becomes_ready();
        begun.elapsed()
    }

    /// Waits until a pod's store has its socket.
    fn serves(&mut self, pod: &Pod) {
        let socket = pod.volume.join("daemon");
        self.eventually("the store's socket", |_| {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Takes a pod's volume away and removes its namespace, and waits until its store is gone.
    pub fn leave(&mut self, pod: &Pod) {
        self.unpublish(pod);
        self.api.remove(&pod.namespace);
        let begin = format!("{}.", pod.namespace);
        self.eventually("the store of a namespace that is gone goes", |node| {
            let stores = fs::read_dir(node.stores()).unwrap().flatten();
            let mut names = stores.map(|entry| entry.file_name().into_string().unwrap());
            !names.any(|name| name.starts_with(&begin))
        });
    }

    /// A pod of `namespace` with its volume, and its own directory, which belongs to `user`.
    pub fn pod(&mut self, namespace: &str, name: &str, user: u32) -> Pod {
        self.pod_of_account(namespace, name, "default", user)
    }

    /// A pod of a service account, with its volume.
    pub fn pod_of_account(&mut self, namespace: &str, name: &str, account: &str, user: u32) -> Pod {
        let pod = Pod {
            account: account.to_owned(),
            ..self.host.pod(namespace, name, user)
        };
        self.publish(&pod);
        self.serves(&pod);
        pod
    }

    /// Mounts a pod's volume. Returns the time that it took.
    ///
    /// # Panics
    /// When it is refused.
    pub fn publish(&self, pod: &Pod) -> Duration {
        let begun = Instant::now();
        csi::publish(&self.host.csi(), pod).unwrap_or_else(|status| {
            panic!("{}: {status}: {}", pod.namespace, self.log());
        });
        begun.elapsed()
    }

    /// Takes a pod's volume away. Returns the time that it took.
    ///
    /// # Panics
    /// When it is refused.
    pub fn unpublish(&self, pod: &Pod) -> Duration {
        let begun = Instant::now();
        csi::unpublish(&self.host.csi(), pod).unwrap_or_else(|status| {
            panic!("{}: {status}: {}", pod.namespace, self.log());
        });
        begun.elapsed()
    }

    /// A pod whose volume comes and goes: it has no directory but that.
    pub fn passing_pod(&self, namespace: &str, name: &str) -> Pod {
        self.host.pod(namespace, name, USER)
    }

    /// The answer to a request for a page.
    pub fn page(&self, path: &str) -> std::io::Result<String> {
        get(self.processes.address_of(path), path)
    }

    /// Sum of the values of a metric's series.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.page("/metrics").unwrap();
        values(&page, name).map(|(_, value)| value).sum()
    }

    /// Ports that pods reach.
    pub fn ports(&self) -> Vec<SocketAddr> {
        self.processes.ports()
    }

    /// Process ids with the names of the processes.
    pub fn process_ids(&self) -> Vec<(&'static str, u32)> {
        self.processes.ids()
    }

    /// Process id of a process.
    pub fn process_id(&self, name: &str) -> u32 {
        let ids = self.process_ids();
        ids.iter().find(|(other, _)| *other == name).unwrap().1
    }

    /// Use of memory, descriptors and threads by each process, and of the stores' tmpfs.
    pub fn usage(&self) -> Usage {
        Usage::of(&self.process_ids(), &self.stores())
    }

    /// Directory of all stores.
    pub fn stores(&self) -> PathBuf {
        self.host.stores()
    }

    /// Directory of the store of a namespace that was made so often, as the node sees it.
    pub fn store(&self, namespace: &str, times: u64) -> PathBuf {
        let name = if self.processes.is_earlier {
            namespace.to_owned()
        } else {
            format!("{namespace}.{}", uid_of(namespace, times))
        };
        self.stores().join(name)
    }

    /// Waits until `holds`.
    ///
    /// # Panics
    /// When it does not in time, or a process ends.
    pub fn eventually(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            self.processes.require_running(what);
            assert!(Instant::now() < deadline, "{what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The logs of all processes.
    pub fn log(&self) -> String {
        self.processes.log()
    }

    /// Stops the daemon, as the kubelet does.
    pub fn stop(self) {
        self.processes.stop();
    }
}

/// Values of a metric's series in a page, with their labels.
pub fn values<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let is_whole_name = labels.is_empty() || labels.starts_with('{');
        is_whole_name.then_some((labels, value.parse().ok()?))
    })
}

fn get(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // The end may be a reset: a newcomer displaced this connection after it was answered.
    let ended = stream.read_to_end(&mut answer);
    if answer.is_empty() {
        ended?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
