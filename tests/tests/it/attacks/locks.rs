//! Locks and leases of a process that may only read: on its own files, and on objects.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tetris_node::config::ConfigFile;
use tetris_node::engine::commands::now_ms;
use tetris_node::engine::{PassResult, Reclaimer};
use tetris_node::report::{ObjectState, Trigger};
use tetris_node::room::RoomNeed;
use tetris_node::store::StoreConfig;
use tetris_reclaimer_core::{Expiry, Reason};
use tetris_store_layout::{Access, CreateOptions, ObjectRef, Store};
use tetris_tests::mount::Mount;
use tetris_tests::process::{Worker, starting};
use tetris_tests::skip::is_root;
use tetris_tests::task::{Job, LocksKind, LocksTask, Task};
use tetris_tests::{skip, worker_exe};

const NOBODY: u32 = 65_534;
const SECOND_MS: u64 = 1_000;
/// Files of the hostile process, and locks on each.
const FILES: u32 = 100;
const EACH: u32 = 200;
/// Objects that it pins in a large store.
const PINNED: u32 = 900;

/// A directory that any user can reach, with a store in it.
struct Ground {
    /// Declared first: closed before what it lies on goes away.
    store: Store,
    dir: TempDir,
    _mount: Option<Mount>,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().join("store");
        let store = Store::create(root, &CreateOptions::default()).unwrap();
        Self {
            store,
            dir,
            _mount: None,
        }
    }

    /// On a tmpfs that no one else uses. Needs root.
    fn alone() -> Self {
        let mount = Mount::tmpfs("size=64m").unwrap();
        let dir = tempfile::tempdir_in(mount.path()).unwrap();
        for path in [mount.path(), dir.path()] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let root = dir.path().join("store");
        let store = Store::create(root, &CreateOptions::default()).unwrap();
        Self {
            store,
            dir,
            _mount: Some(mount),
        }
    }

    /// New objects that no one holds, the oldest first.
    fn objects(&self, numbers: std::ops::Range<u32>) -> Vec<ObjectRef> {
        let publish = |number: u32| {
            let published = self.store.publish(&number.to_le_bytes(), Access::ReadOnly);
            published.unwrap().object
        };
        numbers.map(publish).collect()
    }

    fn paths(&self, objects: &[ObjectRef]) -> Vec<PathBuf> {
        let paths = objects.iter().map(|object| self.store.object_path(object));
        paths.collect()
    }

    fn left(&self) -> usize {
        self.store.objects().unwrap().objects.len()
    }

    fn reclaimer(&self, change: impl FnOnce(&mut ConfigFile)) -> Reclaimer {
        let mut file = ConfigFile {
            stores: vec![StoreConfig {
                name: "a".to_owned(),
                path: self.store.root().to_owned(),
                namespaces: Vec::new(),
                own: false,
            }],
            ..ConfigFile::default()
        };
        change(&mut file);
        Reclaimer::new(file.check().unwrap(), false, now_ms())
    }
}

/// Everything that no one holds goes at once.
fn expire_at_once(file: &mut ConfigFile) {
    file.policy.store.expiry = Expiry::Fixed;
    file.policy.store.keep_alive_secs = 0;
    file.policy.store.expire_after_secs = 0;
}

fn pass(reclaimer: &mut Reclaimer, at_ms: u64) -> PassResult {
    let passed = reclaimer.pass(Trigger::Interval, &[], at_ms);
    let errors = &passed.report.errors;
    assert!(errors.is_empty(), "{errors:?}");
    passed
}

fn freed(passed: &PassResult, reason: Reason) -> u64 {
    let freed = &passed.report.stores[0].freed;
    freed.get(&reason).map_or(0, |amount| amount.objects)
}

/// A hostile process with these locks, without privileges where the test may give them up.
fn locks(files: Vec<PathBuf>, each: u32, kind: LocksKind) -> Worker {
    let task = Task::Locks(LocksTask { files, each, kind });
    let uid = is_root().then_some(NOBODY);
    let mut worker = Worker::start(worker_exe!(), &Job { task, uid });
    worker.wait_ready();
    worker
}

/// Bytes that this thread has read; `None` where the kernel does not count them.
fn bytes_read() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read?.parse().ok()
}

/// Each pass read a line for every lock of the node, in a time that grows with the square of their number: 73 s for
/// 400,000.
#[test]
fn locks_of_others_do_not_lengthen_a_pass() {
    if bytes_read().is_none() {
        skip!("this kernel does not count the bytes that a thread reads");
    }
    let ground = Ground::new();
    ground.objects(0..50);
    let mut reclaimer = ground.reclaimer(|_| {});
    let mut read = || {
        let before = bytes_read().unwrap();
        pass(&mut reclaimer, now_ms());
        bytes_read().unwrap() - before
    };
    read();
    let quiet = read();
    let folder = ground.dir.path().join("own");
    std::fs::create_dir(&folder).unwrap();
    let files = (0..FILES).map(|number| {
        let path = folder.join(number.to_string());
        File::create(&path).unwrap();
        path
    });
    let hostile = locks(files.collect(), EACH, LocksKind::Ofd);
    let locked = read();
    let line = "1: OFDLCK ADVISORY  READ -1 00:19:2 0 0\n".len() as u64;
    let all = u64::from(FILES * EACH) * line;
    assert!(
        locked < quiet + all / 20,
        "{quiet} bytes were read without locks, {locked} with {all} bytes of them"
    );
    drop(hostile);
}

/// A POSIX read lock was not among the counted ones: the plan proposed the same objects 64 times, and no one else's.
#[test]
fn a_posix_read_lock_pins_its_objects_and_no_others() {
    let ground = Ground::new();
    let objects = ground.objects(0..40);
    let mut reclaimer = ground.reclaimer(expire_at_once);
    let hostile = locks(ground.paths(&objects[..10]), 1, LocksKind::Posix);
    let passed = pass(&mut reclaimer, now_ms() + SECOND_MS);
    assert_eq!(freed(&passed, Reason::KeepAliveExpired), 30);
    let kept = passed.report.stores[0].kept_by_lock;
    assert!(kept <= 10, "objects were proposed {kept} times");
    let states = &passed.status.stores[0].states;
    assert_eq!(states[&ObjectState::Held].objects, 10);
    hostile.finish();
    let passed = pass(&mut reclaimer, now_ms() + 3600 * SECOND_MS);
    assert_eq!(freed(&passed, Reason::KeepAliveExpired), 10);
    assert_eq!(ground.left(), 0);
}

/// In a store of which a pass asks only a part, the oldest objects are pinned by locks that the pass does not know.
#[test]
fn pins_in_a_large_store_keep_no_load_from_its_room() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let ground = Ground::alone();
    let pinned = ground.objects(0..PINNED);
    std::thread::sleep(Duration::from_millis(20));
    ground.objects(PINNED..9_000);
    let mut reclaimer = ground.reclaimer(|_| {});
    let hostile = locks(ground.paths(&pinned), 1, LocksKind::Posix);
    let need = RoomNeed {
        store: "a".to_owned(),
        // The room of 768 objects.
        bytes: ground.store.usage().unwrap().free + (3 << 20),
        inodes: 0,
        ..RoomNeed::default()
    };
    let passed = reclaimer.pass(Trigger::Request, &[need], now_ms() + SECOND_MS);
    let freed = freed(&passed, Reason::Pressure);
    assert!(freed >= 768, "{:?}", passed.report);
    assert_eq!(passed.rooms[0].refused, None);
    let kept = passed.report.stores[0].kept_by_lock;
    assert!(
        kept <= u64::from(PINNED),
        "objects were proposed {kept} times"
    );
    assert!(ground.paths(&pinned).iter().all(|path| path.exists()));
    drop(hostile);
}

/// A process with a lease on an object. Killed when dropped.
struct Lease(Child);

impl Lease {
    /// `None` where there is no Python. The standard library of Rust has no safe call for leases.
    fn take(path: &Path, kind: &str) -> Option<Self> {
        let program = format!(
            "import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.{kind})
print('ready', flush=True)
sys.stdin.read()"
        );
        let starting = starting();
        let child = Command::new("python3")
            .arg("-c")
            .arg(program)
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        drop(starting);
        let mut lease = Self(child.ok()?);
        let mut line = String::new();
        let stdout = lease.0.stdout.take().unwrap();
        BufReader::new(stdout.take(64))
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "no lease was taken");
        Some(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A lease for reading does not show when the object is asked; reclaim meets it.
#[test]
fn a_spared_object_is_not_proposed_again_before_its_back_off() {
    let ground = Ground::new();
    let objects = ground.objects(0..5);
    let mut reclaimer = ground.reclaimer(expire_at_once);
    let Some(lease) = Lease::take(&ground.store.object_path(&objects[0]), "F_RDLCK") else {
        skip!("needs python3");
    };
    let begin = now_ms() + SECOND_MS;
    let passed = pass(&mut reclaimer, begin);
    assert_eq!(passed.report.stores[0].kept_by_lock, 1);
    assert_eq!(freed(&passed, Reason::KeepAliveExpired), 4);
    let states = &passed.status.stores[0].states;
    assert_eq!(states[&ObjectState::Held].objects, 1, "it counts as held");
    let passed = pass(&mut reclaimer, begin + 5 * SECOND_MS);
    assert_eq!(passed.report.stores[0].kept_by_lock, 0);
    let passed = pass(&mut reclaimer, begin + 20 * SECOND_MS);
    assert_eq!(passed.report.stores[0].kept_by_lock, 1);
    drop(lease);
    let passed = pass(&mut reclaimer, begin + 3600 * SECOND_MS);
    assert_eq!(freed(&passed, Reason::KeepAliveExpired), 1);
}

/// A lease for writing is as good as a lock, and the question does not wait for it.
#[test]
fn an_object_under_a_lease_for_writing_counts_as_held() {
    let ground = Ground::new();
    let objects = ground.objects(0..5);
    let mut reclaimer = ground.reclaimer(expire_at_once);
    let Some(lease) = Lease::take(&ground.store.object_path(&objects[0]), "F_WRLCK") else {
        skip!("needs python3");
    };
    assert!(ground.store.is_held(&objects[0]).unwrap());
    let passed = pass(&mut reclaimer, now_ms() + SECOND_MS);
    assert_eq!(passed.report.stores[0].kept_by_lock, 0);
    assert_eq!(freed(&passed, Reason::KeepAliveExpired), 4);
    drop(lease);
    assert!(!ground.store.is_held(&objects[0]).unwrap());
}
