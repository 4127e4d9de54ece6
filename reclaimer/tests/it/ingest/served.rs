//! Clients that can only read the store are served.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{Agent, LoadOptions, ManifestKind, PrivateCause, Recognized, Store};
use tetris_node::ingest::IngestOptions;
use tetris_wire::daemon::Message;

use crate::ingest::ground::tensor;
use crate::ingest::harness::{Raw, Site, eventually, no_room, open, room, with_quota};

const MIB: usize = 1 << 20;

#[test]
fn a_read_only_client_has_nothing_private_and_the_next_one_asks_nobody() {
    let Some(site) = Site::plain() else { return };
    let path = site.model("m.safetensors", 9 * MIB, 3);
    let agent = site.agent();
    let model = agent.load(&path).unwrap();
    let report = model.report();
    assert_eq!(report.recognized, [Recognized::Brokered], "{report:?}");
    assert_eq!((report.bytes_private, report.bytes_read), (0, 0));
    assert_eq!(model.tensor("w").unwrap().bytes(), tensor(9 * MIB, 3));
    assert_eq!(agent.counters().brokered_files, 1);
    assert_eq!(site.broker.counts().bytes_read, 9 * MIB as u64);
    // The daemon keeps nothing once it knows that the file is attached.
    eventually("the flight ends", || site.broker.active_files() == 0);

    let again = site.agent().load(&path).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByStat]);
    assert_eq!(site.broker.counts().served, 1);
    let other = LoadOptions::default().with_broker(false);
    let unknown = site.model("other.safetensors", MIB, 4);
    let private = site.agent().load_with(unknown, &other).unwrap();
    assert_eq!(private.report().bytes_private, MIB as u64);
}

#[test]
fn a_whole_file_is_kept_for_programs_that_map_it_by_path() {
    let Some(site) = Site::plain() else { return };
    let path = site.model("m.bin", 3 * MIB, 3);
    let agent = site.agent();
    let file = agent.share_file(&path, &LoadOptions::default()).unwrap();
    assert!(file.is_shared());
    assert_eq!(file.report().recognized, [Recognized::Brokered]);
    assert_eq!(
        std::fs::read(file.path()).unwrap(),
        std::fs::read(&path).unwrap()
    );
}

#[test]
fn what_was_reclaimed_of_a_known_file_is_published_again() {
    let Some(site) = Site::plain() else { return };
    let path = site.model("m.safetensors", 2 * MIB, 3);
    drop(site.agent().load(&path).unwrap());
    eventually("the daemon lets go", || site.broker.active_files() == 0);
    let store = Store::open(site.store()).unwrap();
    for entry in std::fs::read_dir(store.objects_dir()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let model = site.agent().load(&path).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    assert_eq!(model.tensor("w").unwrap().bytes(), tensor(2 * MIB, 3));
}

#[test]
fn a_file_that_many_ask_for_at_once_is_read_once() {
    let Some(site) = Site::plain() else { return };
    let path = site.model("m.safetensors", 12 * MIB, 3);
    let (view, start) = (site.view(), Barrier::new(12));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let agent = Agent::open_store(&view).unwrap();
                start.wait();
                let model = agent.load(&path).unwrap();
                assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
            });
        }
    });
    assert_eq!(site.broker.counts().bytes_read, 12 * MIB as u64);
}

const ROOT: &str = "TETRIS_TEST_INGEST";

#[test]
#[ignore = "run as another user by the test below"]
fn as_another_user() {
    let root = std::env::var_os(ROOT).unwrap();
    let root = Path::new(&root);
    let agent = Agent::open_store(root.join("store")).unwrap();
    assert!(!agent.store().unwrap().is_writable());
    let model = agent.load(root.join("m.safetensors")).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    assert_eq!(model.tensor("w").unwrap().bytes(), tensor(MIB, 3));
}

#[test]
fn another_user_is_served() {
    let Some(site) = Site::plain() else { return };
    site.model("m.safetensors", MIB, 3);
    let child = Command::new("/proc/self/exe")
        .args(["--ignored", "--exact", "ingest::served::as_another_user"])
        .env(ROOT, site.dir.path())
        .current_dir("/")
        .uid(4711)
        .gid(4711)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
}

#[test]
fn a_full_store_makes_room_for_a_file() {
    let asked = Arc::new(AtomicBool::new(false));
    let (noted, store) = (Arc::clone(&asked), Arc::new(Mutex::new(None)));
    let cleaned = Arc::clone(&store);
    let make = move |_, reply: Box<dyn FnOnce(_) + Send>| {
        noted.store(true, Ordering::Relaxed);
        if let Some(store) = &*cleaned.lock().unwrap() {
            collect(store, &GcOptions::default()).unwrap();
        }
        reply(room(None));
    };
    let Some(site) = Site::new(16, IngestOptions::default(), Arc::new(make)) else {
        return;
    };
    drop(
        site.agent()
            .load(site.model("old.safetensors", 10 * MIB, 1))
            .unwrap(),
    );
    eventually("the daemon lets go", || site.broker.active_files() == 0);
    *store.lock().unwrap() = Some(Store::open(site.store()).unwrap());
    let model = site
        .agent()
        .load(site.model("new.safetensors", 10 * MIB, 2))
        .unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    assert!(asked.load(Ordering::Relaxed));
}

#[test]
fn without_room_the_load_is_private_and_says_why() {
    let Some(site) = Site::new(16, IngestOptions::default(), no_room()) else {
        return;
    };
    let loaded = site
        .agent()
        .load(site.model("old.safetensors", 10 * MIB, 1))
        .unwrap();
    let agent = site.agent();
    let model = agent
        .load(site.model("new.safetensors", 10 * MIB, 2))
        .unwrap();
    let report = model.report();
    assert_eq!(report.bytes_private, 10 * MIB as u64);
    let why = report.private_reason.as_deref().unwrap();
    assert!(why.contains("no room") && why.contains("mapped"), "{why}");
    let cause = report.private_cause.unwrap();
    assert!(
        matches!(cause, PrivateCause::Full { needed } if needed > 16 << 20),
        "{cause:?}"
    );
    assert_eq!(agent.counters().private_loads, 1);
    assert_eq!(loaded.tensor("w").unwrap().bytes(), tensor(10 * MIB, 1));
    assert!(site.is_sound());
}

#[test]
fn a_daemon_that_ends_meanwhile_leaves_a_private_load_and_a_sound_store() {
    let (asked, ask) = std::sync::mpsc::channel();
    let asked = Mutex::new(asked);
    // Room is asked for before anything is read, and no one answers.
    let never = move |_, reply| asked.lock().unwrap().send(reply).unwrap();
    let Some(mut site) = Site::new(64, with_quota(32 << 20), Arc::new(never)) else {
        return;
    };
    let path = site.model("m.safetensors", MIB, 3);
    let agent = site.agent();
    let load = std::thread::spawn(move || {
        let model = agent.load(path).unwrap();
        let private = model.report().private_reason.clone();
        assert_eq!(model.tensor("w").unwrap().bytes(), tensor(MIB, 3));
        private
    });
    let reply = ask.recv().unwrap();
    site.stop();
    let why = load.join().unwrap().unwrap();
    assert!(why.contains("did not publish"), "{why}");
    drop(reply);
    assert!(site.is_sound());
}

#[test]
fn a_client_that_hangs_up_leaves_the_queue_and_a_full_queue_is_said() {
    let (asked, ask) = std::sync::mpsc::channel();
    let asked = Mutex::new(asked);
    let never = move |_, reply| asked.lock().unwrap().send(reply).unwrap();
    let Some(site) = Site::new(64, with_quota(32 << 20), Arc::new(never)) else {
        return;
    };
    let file = |name, seed| open(&site.model(name, MIB, seed));
    let kind = ManifestKind::Safetensors;
    let ask_for = |file: &std::fs::File| {
        let mut raw = Raw::greeted(&site.view());
        raw.pass(kind, &[std::os::fd::AsFd::as_fd(file)]);
        raw
    };
    let mut first = ask_for(&file("1", 1));
    let reply = ask.recv().unwrap();
    let mut second = ask_for(&file("2", 2));
    assert_eq!(second.receive(), Message::IngestWaiting { ahead: 1 });
    let busy = site.refusal(file("3", 3), kind);
    assert_eq!(busy, tetris_wire::daemon::IngestReason::BUSY);
    drop(second);
    eventually("its place is free", || site.broker.active_files() == 1);
    reply(room(None));
    assert!(matches!(first.answer(), Message::Ingested { .. }));
    // It is kept for as long as the client does not say that it is done.
    assert_eq!(site.broker.active_files(), 1);
    drop(first);
    eventually("it is let go", || site.broker.active_files() == 0);
}
