//! The GPU mirror as its own process, and the broker's talk with it. The device is simulated.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use tempfile::TempDir;
use tetris_agent::{Agent, LoadOptions, Model};
use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_node::config::{Config, ConfigFile};
use tetris_node::gpu_mirror::GpuMirrorThread;
use tetris_node::processes::mirror::beside;
use tetris_node::room::DaemonReferences as _;
use tetris_node::store::OpenStore;
use tetris_store_layout::{Access, CreateOptions, ObjectRef, Reclaimed, SOCKET_USER, Store};

use crate::daemon::harness::{Daemon, EXE, eventually, model_file};
use tetris_test_support::reachable::reachable;
use tetris_test_support::skipped::skipped;

const LONG: Duration = Duration::from_mins(1);
/// User of the broker and of the mirror, where this test may become it.
const USER: u32 = 9460;

/// Does `work` with the files' owner that the daemon's processes have.
pub fn as_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            if geteuid().is_root() {
                setfsgid(Gid::from_raw(USER));
                setfsuid(Uid::from_raw(USER));
            }
            work()
        });
        worker.join().unwrap()
    })
}

/// A store, and directories for the sockets of the mirror and the broker.
pub struct Place {
    config: Config,
    pub store: Store,
    _mounted: Option<Mounted>,
    dir: TempDir,
}

/// A tmpfs, unmounted when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _unmounted = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Place {
    fn new(more: &str) -> Self {
        Self::within(more, None).unwrap()
    }

    /// With a tmpfs of so many bytes, where one is asked for; `None` without the right to mount.
    fn within(more: &str, bytes: Option<u64>) -> Option<Self> {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = |name: &str| dir.path().join(name);
        for made in ["run/mirror", "run/broker", "stores"] {
            std::fs::create_dir_all(path(made)).unwrap();
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut mounted = None;
        if let Some(bytes) = bytes {
            let (at, options) = (path("stores"), format!("size={bytes},mode=0755"));
            let source = Some("tetris-test");
            let tmpfs = Some("tmpfs");
            if mount(source, &at, tmpfs, MsFlags::empty(), Some(options.as_str())).is_err() {
                skipped("needs the right to mount a tmpfs");
                return None;
            }
            mounted = Some(Mounted(at));
        }
        if geteuid().is_root() {
            for mine in ["run/mirror", "run/broker", "stores"] {
                chown(path(mine), Some(USER), Some(USER)).unwrap();
            }
        }
        let store = as_user(|| Store::create(path("stores/a"), &CreateOptions::default()).unwrap());
        let this = format!(
            "{more}\n[processes]\ndirectory = \"{}\"\n[[stores]]\nname = \"a\"\npath = \"{}\"\n",
            path("run").display(),
            path("stores/a").display()
        );
        std::fs::write(path("node.toml"), this).unwrap();
        let config = ConfigFile::read(&path("node.toml")).unwrap();
        let config = config.check().unwrap();
        Some(Self {
            config,
            store,
            _mounted: mounted,
            dir,
        })
    }

    pub fn simulated() -> Self {
        Self::new(
            "[gpu_mirror]\nimplementation = \"simulated\"\ndevice_bytes = 67108864\nchunk_bytes = 2097152\npinned_secs = 86400",
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the process of the GPU mirror.
    pub fn mirror(&self) -> Daemon {
        self.process("mirror")
    }

    fn process(&self, name: &str) -> Daemon {
        let mut command = Command::new(reachable(EXE, self.dir.path()));
        command
            .arg(name)
            .arg("--config")
            .arg(self.path("node.toml"));
        if geteuid().is_root() {
            command.uid(USER).gid(USER);
        }
        Daemon::started(command)
    }

    /// The broker's side.
    pub fn broker(&self) -> Broker {
        let table = self.config.file.gpu_mirror.clone().unwrap();
        Broker {
            thread: beside(&self.config.file.processes, &table).unwrap(),
            open: vec![OpenStore {
                name: "a".to_owned(),
                root: self.store.root().to_owned(),
                objects: self.store.objects_dir(),
                id: self.store.id(),
            }],
            table,
        }
    }

    fn gpu_socket(&self) -> PathBuf {
        self.store.root().join("gpu")
    }

    pub fn publish(&self, name: u8, len: usize) -> ObjectRef {
        as_user(|| {
            let published = self.store.publish(&vec![name; len], Access::ReadOnly);
            published.unwrap().object
        })
    }

    fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.gpu_socket(), MemoryKind::Host, LONG)
    }

    /// A model of one object on the device.
    pub fn load(&self, object: ObjectRef) -> Acquired<HostDevice> {
        let wanted = Wanted::new(WantedModel::Objects(vec![object]));
        let device = Arc::new(HostDevice::new(0));
        let client = eventually("the mirror's socket", || self.connect().ok());
        let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
        model.wait_all(LONG).unwrap();
        model
    }

    /// Loads a model file into the store.
    fn load_file(&self, len: usize, seed: u8) -> Model {
        let file = model_file(self.dir.path(), len, seed);
        as_user(|| {
            let agent = Agent::open_store(self.store.root()).unwrap();
            let options = LoadOptions::default().with_min_shared_bytes(0);
            agent.load_with(file, &options).unwrap()
        })
    }

    /// Answer of the mirror's own socket.
    fn ask(&self, request: &str, body: &str) -> String {
        self.ask_of("mirror", request, body)
    }

    fn ask_of(&self, process: &str, request: &str, body: &str) -> String {
        let socket = self.path(&format!("run/{process}/socket"));
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let length = body.len();
        let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
        write!(
            stream,
            "{request} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

pub struct Broker {
    thread: GpuMirrorThread,
    pub open: Vec<OpenStore>,
    table: tetris_node::gpu_mirror::GpuMirrorConfig,
}

impl Broker {
    /// After each pass.
    pub fn pass(&mut self) {
        self.thread.serve(&self.open, &self.table);
    }

    fn runs(&self) -> bool {
        self.thread.view().status().running
    }

    pub fn until_it_runs(&self) {
        eventually("a mirror that runs", || self.runs().then_some(()));
    }

    /// The reason that it does not run.
    fn until_it_stops(&self) -> String {
        eventually("a mirror that does not run", || {
            let status = self.thread.view().status();
            status.reason.filter(|_| !status.running)
        })
    }
}

#[test]
fn a_client_loads_a_model_into_device_memory_of_a_process_without_rights() {
    let place = Place::simulated();
    let mirror = place.mirror();
    let mut broker = place.broker();
    broker.pass();
    let object = place.publish(7, 100_000);
    let model = place.load(object);
    assert_eq!(model.read(&object.id, LONG).unwrap(), vec![7; 100_000]);
    broker.until_it_runs();
    let counted = || broker.thread.view().status().report.counters.admitted;
    eventually("the count of the model", || (counted() == 1).then_some(()));
    assert!(broker.thread.view().status().stores.values().eq(["a"]));
    let on_gpus = || -> Vec<String> {
        let gpus = broker.thread.view().gpus();
        let stores = gpus.iter().flat_map(|gpu| &gpu.stores);
        stores.flat_map(|store| store.objects.clone()).collect()
    };
    let named = [object.id.to_string()];
    eventually("the object in the inventory", || {
        (on_gpus() == named).then_some(())
    });
    assert!(place.ask("GET /healthz", "").contains("200 OK"));
    if geteuid().is_root() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", mirror.pid())).unwrap();
        let field = |key: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!(field("Uid:"), USER.to_string());
        assert_eq!(field("CapEff:"), "0000000000000000");
    }
    // The stores that are not wanted any more are left.
    broker.open.clear();
    broker.pass();
    eventually("the end of the socket", || {
        (!place.gpu_socket().exists()).then_some(())
    });
    assert!(mirror.stop().success());
}

#[test]
fn a_process_that_was_killed_is_followed_by_one_that_takes_its_sockets_and_stores_over() {
    let place = Place::simulated();
    let mirror = place.mirror();
    let mut broker = place.broker();
    broker.pass();
    let object = place.publish(3, 5000);
    let own_tmpfs = place.load(object);
    if geteuid().is_root() {
        // As `volumes` does with the sockets of the broker's user.
        chown(place.gpu_socket(), Some(SOCKET_USER), Some(SOCKET_USER)).unwrap();
    }
    mirror.signal(Signal::SIGKILL);
    let reason = broker.until_it_stops();
    assert!(reason.contains("run/mirror/socket"), "{reason}");
    assert_eq!(broker.thread.references().release(&["a".to_owned()]), 0);
    assert!(matches!(place.connect(), Err(ClientError::NoServer { .. })));
    assert_eq!(
        own_tmpfs.read(&object.id, LONG).unwrap(),
        [3; 5000],
        "its mapping stays"
    );
    // No one makes a pass: the broker's thread notices the new process by itself.
    let next = place.mirror();
    broker.until_it_runs();
    let again = place.load(object);
    assert_eq!(again.read(&object.id, LONG).unwrap(), [3; 5000]);
    assert!(next.stop().success());
}

#[test]
fn a_process_that_hangs_is_told_and_not_waited_for() {
    let place = Place::simulated();
    let mirror = place.mirror();
    let mut broker = place.broker();
    broker.pass();
    broker.until_it_runs();
    let references = broker.thread.references();
    mirror.signal(Signal::SIGSTOP);
    let reason = broker.until_it_stops();
    assert!(reason.contains("no answer"), "{reason}");
    // Passes with news for it go on. Each would take a second or two if it waited for an answer.
    let passes = std::thread::spawn(move || {
        for bytes in 1..1200 {
            broker.table.store_bytes = Some((32 << 20) + bytes);
            broker.pass();
            references.release(&["a".to_owned()]);
        }
        broker.table.store_bytes = None;
        broker.pass();
        broker
    });
    eventually("the end of the passes", || {
        passes.is_finished().then_some(())
    });
    let broker = passes.join().unwrap();
    mirror.signal(Signal::SIGCONT);
    broker.until_it_runs();
    let object = place.publish(1, 10);
    drop(place.load(object));
    assert!(mirror.stop().success());
}

#[test]
fn pages_that_the_process_has_registered_are_released_for_a_pass() {
    let place = Place::simulated();
    let _mirror = place.mirror();
    let mut broker = place.broker();
    broker.pass();
    let object = place.publish(5, 1_500_000);
    drop(place.load(object));
    broker.until_it_runs();
    let references = broker.thread.references();
    assert_eq!(references.release(&["other".to_owned()]), 0);
    // Pages are registered once no transfer runs.
    let released = eventually("registered pages", || {
        let released = references.release(&["a".to_owned()]);
        (released > 0).then_some(released)
    });
    assert_eq!(released, 1_500_000);
    let reclaimed = as_user(|| place.store.reclaim(&object).unwrap());
    assert_ne!(reclaimed, Reclaimed::Referenced);
}

/// Both processes, and a load that needs the room.
#[test]
fn a_load_gets_room_from_pages_that_the_process_has_registered() {
    let table = "[gpu_mirror]\nimplementation = \"simulated\"\ndevice_bytes = 67108864\npinned_secs = 86400\n\
        [policy]\nhigh_watermark_percent = 100\nlow_watermark_percent = 100\n[scrub]\nenabled = false";
    let Some(place) = Place::within(table, Some(4 << 20)) else {
        return;
    };
    let broker = place.process("broker");
    eventually("the broker's socket", || {
        place.store.daemon_socket().exists().then_some(())
    });
    let first = place.publish(1, 1_500_000);
    let second = place.publish(2, 1_500_000);
    // It comes later than the broker, which passes it the store by itself.
    let mirror = place.mirror();
    let models = [place.load(first), place.load(second)];
    let reclaim = || as_user(|| place.store.reclaim(&first).unwrap());
    assert_eq!(reclaim(), Reclaimed::Referenced);
    let shows = |line: &str| place.ask_of("broker", "GET /metrics", "").contains(line);
    let up = "tetris_gpu_mirror_up{implementation=\"simulated\"}";
    eventually("a mirror in the metrics", || {
        shows(&format!("{up} 1\n")).then_some(())
    });
    let loaded = place.load_file(1_500_000, 3);
    let report = loaded.report();
    assert!(report.private_reason.is_none(), "{report:?}");
    broker.says("released pages");
    // The device has its own copy.
    for (model, object) in models.iter().zip([first, second]) {
        let read = model.read(&object.id, LONG).unwrap();
        assert_eq!(read.len() as u64, object.len);
    }
    drop((models, loaded));
    // Without the mirror, the broker gives room as before.
    mirror.signal(Signal::SIGSTOP);
    eventually("a mirror that is down", || {
        shows(&format!("{up} 0\n")).then_some(())
    });
    let loaded = place.load_file(1_500_000, 4);
    let report = loaded.report();
    assert!(report.private_reason.is_none(), "{report:?}");
    mirror.signal(Signal::SIGCONT);
    eventually("a mirror that is up again", || {
        shows(&format!("{up} 1\n")).then_some(())
    });
    assert!(mirror.stop().success());
    assert!(broker.stop().success());
}

#[test]
fn without_a_driver_the_process_says_so_and_goes_on() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        skipped("there is a driver");
        return;
    }
    let place = Place::new("[gpu_mirror]\ndevice_bytes = 1000000");
    let mirror = place.mirror();
    mirror.says("no GPU mirror");
    let mut broker = place.broker();
    broker.pass();
    eventually("the reason", || {
        let reason = broker.until_it_stops();
        reason.contains("no usable CUDA driver").then_some(())
    });
    assert!(
        place
            .ask("GET /status", "")
            .contains("no usable CUDA driver")
    );
    assert!(place.ask("GET /healthz", "").contains("200 OK"));
    assert!(!place.gpu_socket().exists());
    assert!(mirror.stop().success());
}

#[test]
fn a_reload_names_fields_that_need_a_restart_and_the_broker_tells_quotas() {
    let place = Place::simulated();
    let mirror = place.mirror();
    let mut broker = place.broker();
    broker.pass();
    broker.until_it_runs();
    let file = place.path("node.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let new = text.replace("67108864", "33554432\nstore_bytes = 4194304");
    std::fs::write(&file, new).unwrap();
    mirror.signal(Signal::SIGHUP);
    let line = mirror.says("take force when the GPU mirror is restarted");
    assert!(line.contains("gpu_mirror.device_bytes"), "{line}");
    assert!(!line.contains("store_bytes"), "{line}");
    broker.table.store_bytes = Some(4_194_304);
    broker.pass();
    eventually("the new quota", || {
        let tenants = broker.thread.view().status().report.tenants;
        (tenants.first()?.quota_bytes == Some(4_194_304)).then_some(())
    });
    assert!(mirror.stop().success());
}

#[test]
fn orders_that_no_broker_gives_are_refused() {
    let place = Place::simulated();
    let _mirror = place.mirror();
    eventually("the socket", || {
        place.path("run/mirror/socket").exists().then_some(())
    });
    let store = |name: &str, root: &str, id: &str| {
        format!(
            r#"{{"stores": [{{"name": "{name}", "root": "{root}", "id": "{id}"}}], "connections": 9, "connections_per_user": 9}}"#
        )
    };
    let id = place.store.id().to_string();
    let root = place.store.root().display().to_string();
    for (body, expected) in [
        (store("../a", &root, &id), "without a slash"),
        (store("..", &root, &id), "without a slash"),
        (store("", &root, &id), "without a slash"),
        (store("a", "stores/a", &id), "an absolute path"),
        (store("a", "/stores/../etc", &id), "an absolute path"),
        (store("a", &root, "123"), "32 hexadecimal digits"),
        (
            store("a", &root, &id).replace("\"connections\": 9", "\"connections\": 0"),
            "connections",
        ),
    ] {
        let answer = place.ask("PUT /stores", &body);
        assert!(answer.contains("400 Bad Request"), "{answer}");
        assert!(answer.contains(expected), "{answer}");
    }
    let other = store("a", &root, &"0".repeat(32));
    assert!(place.ask("PUT /stores", &other).contains("200 OK"));
    // Another store than the broker's is not served.
    assert!(!place.gpu_socket().exists());
    if !geteuid().is_root() {
        skipped("needs root, to be another user");
        return;
    }
    // The credentials of this thread alone.
    let answer = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let other = rustix::process::Uid::from_raw(1234);
            rustix::thread::set_thread_res_uid(other, other, other).unwrap();
            place.ask("POST /references/release", "{\"stores\": [\"a\"]}")
        });
        worker.join().unwrap()
    });
    assert!(answer.contains("403 Forbidden"), "{answer}");
    assert!(answer.contains("found one of uid 1234"), "{answer}");
}

#[test]
fn without_its_table_the_process_refuses_to_start() {
    let place = Place::new("");
    let output = crate::daemon::harness::command(&["mirror"], &place.path("node.toml"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("gpu_mirror"), "{said}");
}
