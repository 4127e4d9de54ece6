//! A tmpfs with stores of the broker's user, the broker as that user, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, setfsgid, setfsuid};
use serde_json::Value;
use tempfile::TempDir;
use tetris_store_layout::{CreateOptions, Store};

use crate::daemon::harness::{EXE, eventually};
use tetris_test_support::reachable::reachable;
use tetris_test_support::settled::settle;
use tetris_test_support::skipped::skipped;

/// User and group of the broker.
pub const BROKER: u32 = 9460;

/// A directory with the broker's socket, and with the mount point of the stores' tmpfs.
pub struct Node {
    dir: TempDir,
    config: PathBuf,
}

impl Node {
    /// A node without the tmpfs; `None` for who may not mount one, which is said. This goes at the
    /// end of the configuration.
    pub fn new(text: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skipped("needs root to mount, and to start processes of other users");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let sockets = dir.path().join("run/broker");
        std::fs::create_dir_all(&sockets).unwrap();
        chown(&sockets, Some(BROKER), Some(BROKER)).unwrap();
        std::fs::create_dir(dir.path().join("stores")).unwrap();
        let config = dir.path().join("node.toml");
        let root = dir.path().display();
        let text = format!(
            "node = \"n\"\ninterval_secs = 1\n[processes]\ndirectory = \"{root}/run\"\n[mount]\npath = \"{root}/stores\"\nsize_bytes = \"64MiB\"\n{}",
            text.replace("{root}", &root.to_string())
        );
        std::fs::write(&config, text).unwrap();
        Some(Self { dir, config })
    }

    /// Mounts the tmpfs, as `volumes` does.
    pub fn mount(&self) {
        let kind = Some("tmpfs");
        let options = format!("size=64m,mode=0755,uid={BROKER},gid={BROKER}");
        let flags = MsFlags::empty();
        mount(
            Some("tetris"),
            &self.stores(),
            kind,
            flags,
            Some(options.as_str()),
        )
        .unwrap();
    }

    pub fn stores(&self) -> PathBuf {
        self.path("stores")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a store with the rights of the broker's user alone, as `volumes` does.
    pub fn make_store(&self, name: &str) -> PathBuf {
        let path = self.stores().join(name);
        let at = path.clone();
        // The ids are those of the thread.
        let made = std::thread::spawn(move || {
            setfsgid(BROKER.into());
            setfsuid(BROKER.into());
            Store::create(at, &CreateOptions::default()).map(drop)
        });
        made.join().unwrap().unwrap();
        path
    }

    /// The store as a pod sees it, read-only.
    pub fn view(&self, store: &Path) -> PathBuf {
        let view = self.path("view");
        std::fs::create_dir(&view).unwrap();
        let none = None::<&str>;
        mount(Some(store), &view, none, MsFlags::MS_BIND, none).unwrap();
        let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, &view, none, read_only, none).unwrap();
        view
    }

    /// A model file of this length that every user can read.
    pub fn model(&self, len: usize) -> PathBuf {
        let header =
            format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend((0..len).map(|n| (n % 251) as u8));
        let path = self.path("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        lchown(&path, Some(1000), Some(1000)).unwrap();
        settle(&path);
        path
    }

    /// `tetris-node broker` as its user, without capabilities.
    pub fn command(&self) -> Command {
        let mut command = Command::new(reachable(EXE, self.dir.path()));
        command.arg("broker").arg("--config").arg(&self.config);
        command.args(["--log", "info,tetris_node=debug"]);
        command.env_remove("NODE_NAME").uid(BROKER).gid(BROKER);
        command
    }

    /// Starts it.
    pub fn broker(&self) -> Broker {
        let mut command = self.command();
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, to) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                *to.lock().unwrap() += &(line + "\n");
            }
        });
        let socket = self.path("run/broker/socket");
        let broker = Broker { child, log, socket };
        eventually("the broker listens", || {
            UnixStream::connect(&broker.socket).ok()
        });
        broker
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for name in ["view", "stores"] {
            let _not_mounted = umount2(&self.path(name), MntFlags::MNT_DETACH);
        }
    }
}

/// The broker's process. Killed when dropped.
pub struct Broker {
    child: Child,
    log: Arc<Mutex<String>>,
    socket: PathBuf,
}

impl Broker {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Status and body of the answer to a request of this process.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        // A page is sent without waiting for a body.
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// A page, with its status.
    pub fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, &Value::Null)
    }

    /// The node's status, once `holds`.
    pub fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{what}\n{}", self.log()), || {
            let (code, body) = self.get("/status?models=true");
            let status: Value = (code == 200).then(|| serde_json::from_str(&body).unwrap())?;
            holds(&status).then_some(status)
        })
    }

    /// The value of a series of its metrics.
    pub fn metric(&self, series: &str) -> f64 {
        let (_, metrics) = self.get("/metrics");
        let line = metrics.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        let value = value.unwrap_or_else(|| panic!("no {series} in {metrics}"));
        value.parse().unwrap()
    }

    pub fn stop(mut self) -> ExitStatus {
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM).unwrap();
        eventually("the end of the broker", || self.child.try_wait().unwrap())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
