//! The processes of the daemon.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tetris_hostile::cgroup::Cgroup;
use tokio::runtime::Runtime;

use super::host::Host;
use super::{Options, PATIENCE};
use tetris_test_support::api::Api;
use tetris_test_support::reachable::reachable;

const SIZE_MIB: u64 = 128;
/// Names the program of an earlier version, in which one process was the whole daemon.
const EARLIER: &str = "TETRIS_ATTACKED";
/// Names the program of this version as it is shipped, in place of the tests' own build.
const SHIPPED: &str = "TETRIS_SHIPPED";
/// Folder from which relative paths of programs count.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// User of the process that has the stores.
const BROKER: u32 = 9460;
/// The processes of the daemon, and their users.
const PROCESSES: [(&str, Option<u32>); 3] = [
    ("volumes", None),
    ("broker", Some(BROKER)),
    ("cluster", Some(9461)),
];
/// Makes glibc's allocator give freed memory back, which it keeps otherwise: 64 MiB for each of its arenas. So the
/// memory of a process is what it uses.
const RETURNED_AT_ONCE: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
];

/// Processes that run until this is dropped, and the API server that they use.
pub struct Processes {
    all: Vec<Process>,
    launch: Launch,
    /// True for the daemon of an earlier version: one process, with one server of pages.
    pub is_earlier: bool,
    _api: Runtime,
}

struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// The way in which processes are started.
struct Launch {
    program: PathBuf,
    config: PathBuf,
    kubeconfig: PathBuf,
    logs: PathBuf,
    /// The cgroups of processes that have one, by name.
    cgroups: BTreeMap<&'static str, Cgroup>,
}

impl Launch {
    /// Starts a process by its subcommand.
    fn start(&self, name: &'static str, command: &str, user: Option<u32>) -> Process {
        let log = self.logs.join(format!("{name}.log"));
        let prepare = |process: &mut Command| {
            if let Some(user) = user {
                process.uid(user).gid(user);
            }
            let is_cluster = name != "volumes" && name != "broker";
            process
                // The cluster's process alone has it.
                .envs(is_cluster.then_some(("KUBECONFIG", &self.kubeconfig)))
                .envs(RETURNED_AT_ONCE)
                .args([command, "--kubernetes", "--node", "node-1", "--config"])
                .arg(&self.config)
                .stderr(Stdio::from(append_to(&log)));
        };
        let child = if let Some(cgroup) = self.cgroups.get(name) {
            cgroup.start(&self.program, prepare).unwrap()
        } else {
            let mut process = Command::new(&self.program);
            prepare(&mut process);
            process.spawn().unwrap()
        };
        Process { name, child, log }
    }

    /// Starts a process of this version.
    fn start_part(&self, name: &'static str) -> Process {
        let user = PROCESSES
            .iter()
            .find(|(other, _)| *other == name)
            .unwrap()
            .1;
        self.start(name, name, user)
    }
}

impl Processes {
    pub fn start(
        host: &Host,
        api: &Api,
        options: &Options,
        cgroups: BTreeMap<&'static str, Cgroup>,
    ) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(api.serve());
        let kubeconfig = host.path("kubeconfig");
        let text = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        fs::write(&kubeconfig, text).unwrap();
        let named =
            |variable| std::env::var_os(variable).map(|path| Path::new(WORKSPACE).join(path));
        let earlier = named(EARLIER);
        let is_earlier = earlier.is_some();
        let program = earlier.unwrap_or_else(|| {
            let ours = || env!("CARGO_BIN_EXE_tetris-attacks-node").into();
            reachable(named(SHIPPED).unwrap_or_else(ours), &host.path(""))
        });
        let launch = Launch {
            program,
            config: configure(host, options, is_earlier),
            kubeconfig,
            logs: host.path(""),
            cgroups,
        };
        let all = if is_earlier {
            vec![launch.start("daemon", "run", None)]
        } else {
            let start = |(name, user): (&'static str, Option<u32>)| {
                let directory = host.path("run").join(name);
                fs::create_dir_all(&directory).unwrap();
                chown(&directory, user, user).unwrap();
                launch.start_part(name)
            };
            PROCESSES.map(start).into()
        };
        Self {
            all,
            launch,
            is_earlier,
            _api: runtime,
        }
    }

    /// Kills a process, as the kernel does for want of memory, and starts it again.
    pub fn restart(&mut self, name: &'static str) {
        let process = self.all.iter_mut().find(|process| process.name == name);
        let process = process.unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        *process = self.launch.start_part(name);
    }

    pub fn ids(&self) -> Vec<(&'static str, u32)> {
        let ids = self
            .all
            .iter()
            .map(|process| (process.name, process.child.id()));
        ids.collect()
    }

    pub fn log(&self) -> String {
        let logs = self.all.iter().map(|process| {
            let log = fs::read_to_string(&process.log).unwrap_or_default();
            // The end gives the reason.
            let from = log.len().saturating_sub(20_000);
            let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
            format!("\n{}:\n{}", process.name, &log[from.unwrap_or(log.len())..])
        });
        logs.collect()
    }

    /// Address of the server that has a page.
    pub fn address_of(&self, path: &str) -> SocketAddr {
        self.address(match path {
            _ if self.is_earlier => "address",
            "/healthz" | "/readyz" => "probes",
            "/metrics" => "metrics",
            _ => panic!("no address for {path}"),
        })
    }

    /// Ports that other hosts and pods reach.
    pub fn ports(&self) -> Vec<SocketAddr> {
        let names: &[&str] = if self.is_earlier {
            &["address"]
        } else {
            &["probes", "metrics", "inventory"]
        };
        names.iter().map(|name| self.address(name)).collect()
    }

    /// Address that a log has after `name`.
    fn address(&self, name: &str) -> SocketAddr {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let logs = self.all.iter();
            let logs: String = logs
                .map(|process| fs::read_to_string(&process.log).unwrap_or_default())
                .collect();
            let after_name = logs.split(&format!(" {name}=")).nth(1);
            if let Some(Ok(address)) = after_name
                .and_then(|rest| rest.split_whitespace().next())
                .map(str::parse)
            {
                return address;
            }
            assert!(Instant::now() < deadline, "{name}: {logs}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `holds`, while all processes run.
    pub fn eventually(&mut self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            self.require_running(what);
            assert!(Instant::now() < deadline, "{what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn require_running(&mut self, what: &str) {
        for at in 0..self.all.len() {
            let ended = self.all[at].child.try_wait().unwrap();
            let name = self.all[at].name;
            assert_eq!(ended, None, "{name}, waiting for {what}: {}", self.log());
        }
    }

    /// Stops all of them, as the kubelet does.
    pub fn stop(mut self) {
        for process in &self.all {
            let id = Pid::from_raw(process.child.id().cast_signed());
            kill(id, Signal::SIGTERM).unwrap();
        }
        for at in 0..self.all.len() {
            let ended = self.all[at].child.wait().unwrap();
            assert!(ended.success(), "{ended}: {}", self.log());
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.all {
            let _ended = process.child.kill();
            let _reaped = process.child.wait();
        }
    }
}

/// Opens a log: a process started again goes on with it.
fn append_to(log: &Path) -> fs::File {
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true).open(log).unwrap()
}

fn configure(host: &Host, options: &Options, earlier: bool) -> PathBuf {
    let path = host.path("node.toml");
    let (processes, owner) = if earlier {
        ("listen = \"127.0.0.1:0\"\n".to_owned(), String::new())
    } else {
        let directory = host.path("run").display().to_string();
        let processes = format!(
            "[processes]\ndirectory = \"{directory}\"\n\
             [network]\nmetrics = \"127.0.0.1:0\"\nprobes = \"127.0.0.1:0\"\ninventory = \"127.0.0.1:0\"\n"
        );
        (processes, format!("user = {BROKER}\n"))
    };
    // An earlier version mounts volumes plainly, and knows no setting for it.
    let csi: String = options
        .csi
        .lines()
        .filter(|line| !(earlier && line.starts_with("idmap")))
        .collect::<Vec<_>>()
        .join("\n");
    let text = format!(
        "interval_secs = 1\n{processes}\
         [mount]\n{owner}size_bytes = {size}\nreserve_bytes = {reserve}\npath = \"{stores}\"\n{mount}\n\
         [csi]\nkubelet_dir = \"{kubelet}\"\n{csi}\n\
         [csi.per_namespace]\npath = \"{stores}/{{namespace}}\"\n",
        size = options.size_mib.unwrap_or(SIZE_MIB) << 20,
        reserve = 64 << 20,
        stores = host.stores().display(),
        kubelet = host.kubelet().display(),
        mount = options.mount,
    );
    fs::write(&path, text).unwrap();
    path
}
