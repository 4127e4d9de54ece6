//! Clients that do not keep to the rules, beside one that does.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tetris_agent::{ManifestKind, Recognized};
use tetris_node::socket::Socket;

use crate::ingest::harness::{Raw, Site, descriptors, eventually};
use tetris_test_support::alone::alone;

const ROOT: &str = "TETRIS_TEST_HOSTILE";

#[test]
#[ignore = "run as another user by the test below"]
fn attacker() {
    let root = std::env::var_os(ROOT).unwrap();
    let root = Path::new(&root);
    let null = File::open("/dev/null").unwrap();
    let mut connections = Vec::new();
    for round in 0..10_000_u32 {
        let Ok(stream) = UnixStream::connect(root.join("daemon")) else {
            continue;
        };
        let mut raw = Raw(stream);
        // Errors say that the daemon has hung up, which it may.
        let garbage = tetris_wire::daemon::PROTOCOL.preamble();
        let _ = std::io::Write::write_all(&mut raw.0, &garbage);
        if round % 7 == 0 {
            let _ = std::io::Write::write_all(&mut raw.0, &round.to_le_bytes().repeat(50));
        }
        if connections.len() < 12 {
            connections.push(raw);
        }
    }
    drop(connections.split_off(6));
    for _ in 0..300 {
        let mut raw = None;
        eventually("a connection", || {
            raw = std::panic::catch_unwind(|| Raw::greeted(root)).ok();
            raw.is_some()
        });
        let mut raw = raw.unwrap();
        raw.pass(ManifestKind::File, &[null.as_fd(); 100]);
    }
}

#[test]
fn a_lock_of_someone_who_can_only_read_holds_up_nobody() {
    let Some(mut site) = Site::plain() else {
        return;
    };
    let locks = site.view().join("locks");
    // Others cannot even open it; root in a container can.
    assert_eq!(locks.metadata().unwrap().mode() & 0o777, 0o600);
    let locks = File::open(locks).unwrap();
    let all = libc::flock {
        l_type: libc::F_RDLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&locks, FcntlArg::F_OFD_SETLK(&all)).unwrap();
    let model = site.agent().load(site.model("m", 1 << 20, 1)).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    site.stop();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let next = Socket::bind(&site.store(), "store").unwrap();
    UnixStream::connect(site.view().join("daemon")).unwrap();
    drop(next);
    assert!(!site.view().join("daemon").exists());
}

#[test]
fn a_flood_of_connections_and_descriptors_keeps_nobody_else_from_being_served() {
    if !alone() {
        return;
    }
    let Some(site) = Site::plain() else { return };
    let before = descriptors();
    let mut attacker = Command::new("/proc/self/exe")
        .args(["--ignored", "--exact", "ingest::hostile::attacker"])
        .env(ROOT, site.store())
        .current_dir("/")
        .uid(4711)
        .gid(4711)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut served = 0;
    loop {
        let path = site.model(&format!("{served}"), 100_000, (served % 16) as u8);
        let model = site.agent().load(&path).unwrap();
        assert_eq!(
            model.report().recognized,
            [Recognized::Brokered],
            "{:?}",
            model.report()
        );
        served += 1;
        let ended = attacker.try_wait().unwrap();
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
    }
    eventually("nothing is left of it", || descriptors() <= before);
}
