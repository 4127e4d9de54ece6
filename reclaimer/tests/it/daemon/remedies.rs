//! Private loads beside a store that can only be read: the command of each remedy removes the cause.

use std::fs::FileTimes;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tetris_agent::{Agent, LoadOptions, LoadReport, PrivateCause, Recognized, Words};
use tetris_store_layout::Store;

use super::harness::{Daemon, EXE, eventually};
use crate::ingest::ground::Ground;

/// Loads as a container does, which sees the store at the node's path, read-only.
fn load(store: PathBuf, model: PathBuf) -> LoadReport {
    let container = move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(Some(&store), &store, none, MsFlags::MS_BIND, none).unwrap();
        let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, &store, none, read_only, none).unwrap();
        let options = LoadOptions::default().with_broker_timeout(Duration::from_secs(10));
        let agent = Agent::open_store(&store).unwrap();
        agent.load_with(model, &options).unwrap().report().clone()
    };
    // The namespace ends with the thread.
    std::thread::spawn(container).join().unwrap()
}

/// A daemon started as a remedy describes. Killed when dropped.
struct Told(Child);

impl Told {
    /// Runs the remedy's command that begins with `sudo tetris-node` or `tetris-node`.
    fn start(remedy: &str, store: &Path) -> Self {
        let commands = remedy.split('`').skip(1).step_by(2);
        let mut commands = commands.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
        let args = commands.find_map(|line| line.strip_prefix("tetris-node "));
        let args = args.unwrap_or_else(|| panic!("no daemon to start in: {remedy}"));
        let child = Command::new(EXE).args(args.split(' ')).spawn().unwrap();
        let told = Self(child);
        eventually("the daemon", || is_served(store).then_some(()));
        told
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn is_served(store: &Path) -> bool {
    let socket = Store::open(store).unwrap().daemon_socket();
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

fn is_brokered(report: &LoadReport) -> bool {
    report.private_cause.is_none() && report.recognized == [Recognized::Brokered]
}

#[test]
fn without_a_daemon_and_after_its_death_the_remedy_starts_one() {
    let Some(ground) = Ground::new(64) else {
        return;
    };
    let store = ground.store();
    let first = ground.model("1.safetensors", 6 << 20, 1);
    let report = load(store.clone(), first.clone());
    assert_eq!(
        report.private_cause,
        Some(PrivateCause::ReadOnly),
        "{report:?}"
    );
    let daemon = Told::start(&report.remedy(Words::CommandLine).unwrap(), &store);
    let report = load(store.clone(), first);
    assert!(is_brokered(&report), "{report:?}");

    drop(daemon);
    let second = ground.model("2.safetensors", 6 << 20, 2);
    let report = load(store.clone(), second.clone());
    assert_eq!(
        report.private_cause,
        Some(PrivateCause::NoDaemon),
        "{report:?}"
    );
    let _daemon = Told::start(&report.remedy(Words::Python).unwrap(), &store);
    let report = load(store, second);
    assert!(is_brokered(&report), "{report:?}");
}

#[test]
fn what_the_daemon_refuses_is_in_its_log() {
    let Some(ground) = Ground::new(64) else {
        return;
    };
    let store = ground.store();
    let config = ground.dir.path().join("node.toml");
    let text = |enabled: bool| {
        let store = store.display();
        format!("[ingest]\nenabled = {enabled}\n[[stores]]\nname = \"a\"\npath = \"{store}\"\n")
    };
    std::fs::write(&config, text(false)).unwrap();
    let daemon = Daemon::start(&config, &[]);
    eventually("the socket", || is_served(&store).then_some(()));
    let model = ground.model("m.safetensors", 6 << 20, 1);
    let report = load(store.clone(), model.clone());
    assert_eq!(
        report.private_cause,
        Some(PrivateCause::DaemonRefused),
        "{report:?}"
    );
    let remedy = report.remedy(Words::CommandLine).unwrap();
    assert!(remedy.contains("journalctl -u tetris-node"), "{remedy}");
    let line = daemon.says("file of a client refused");
    assert!(line.contains("ingest.enabled"), "{line}");
    // As the log states.
    std::fs::write(&config, text(true)).unwrap();
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the file to be taken", || {
        is_brokered(&load(store.clone(), model.clone())).then_some(())
    });
}

#[test]
fn a_load_between_two_daemons_is_published_by_the_second() {
    let Some(ground) = Ground::new(64) else {
        return;
    };
    let store = ground.store();
    // Made an hour ago.
    let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_hours(1));
    let header = std::fs::File::open(store.join("store")).unwrap();
    header.set_times(times).unwrap();
    let config = ground.dir.path().join("node.toml");
    let text = format!("[[stores]]\nname = \"a\"\npath = \"{}\"\n", store.display());
    std::fs::write(&config, text).unwrap();
    let first = Daemon::start(&config, &[]);
    eventually("the socket", || is_served(&store).then_some(()));
    assert!(first.stop().success());
    let model = ground.model("m.safetensors", 6 << 20, 1);
    let loading = std::thread::spawn({
        let store = store.clone();
        move || load(store, model)
    });
    let _second = Daemon::start(&config, &[]);
    let report = loading.join().unwrap();
    assert!(is_brokered(&report), "{report:?}");
}
