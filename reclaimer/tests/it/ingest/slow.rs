//! Files that are slow, or change while they are read.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::AT_FDCWD;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use tetris_agent::{ManifestKind, Recognized};
use tetris_node::ingest::{IngestConfig, IngestOptions};
use tetris_node::socket::Limits;
use tetris_wire::daemon::{IngestReason, Message};

use crate::ingest::harness::{Raw, Site, descriptors, eventually, no_room, open};
use tetris_test_support::alone::alone;

const MIB: usize = 1 << 20;

/// While this lives, every reader of the file waits: the kernel asks for permission, and no one
/// answers. As with a file system that does not answer, but for the fact that the kernel reports it as
/// a local one.
pub struct Stuck {
    asks: Fanotify,
}

impl Stuck {
    /// `None`, which is said, where the kernel has no such thing.
    pub fn new(path: &Path) -> Option<Self> {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let made = Fanotify::init(flags, EventFFlags::O_RDONLY).and_then(|asks| {
            let mask = MaskFlags::FAN_ACCESS_PERM;
            asks.mark(MarkFlags::FAN_MARK_ADD, mask, AT_FDCWD, Some(path))?;
            Ok(asks)
        });
        match made {
            Ok(asks) => Some(Self { asks }),
            Err(error) => {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "SKIPPED: needs fanotify: {error}");
                None
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_given_up_and_others_are_served_meanwhile() {
    if !alone() {
        return;
    }
    let options = IngestOptions {
        config: IngestConfig {
            stall_secs: 2,
            per_user: 2,
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(64, options, no_room()) else {
        return;
    };
    let path = site.model("stuck", MIB, 1);
    let Some(stuck) = Stuck::new(&path) else {
        return;
    };
    let before = descriptors();
    let mut raw = Raw::greeted(&site.view());
    raw.pass(ManifestKind::Safetensors, &[open(&path).as_fd()]);
    assert!(matches!(
        raw.receive(),
        Message::IngestProgress { done: 0, .. } | Message::IngestWaiting { .. }
    ));
    for seed in 2..5 {
        let other = site.model(&format!("{seed}"), MIB, seed);
        let model = site.agent().load(other).unwrap();
        assert_eq!(model.report().recognized, [Recognized::Brokered]);
    }
    let Message::IngestRefused(refusal) = raw.answer() else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, IngestReason::STALLED);
    drop(raw);
    // Its thread and its descriptor are there until the read returns.
    assert_eq!(site.broker.active_files(), 1);
    assert!(descriptors() > before);
    drop(stuck);
    eventually("the thread comes back", || {
        site.broker.active_files() == 0 && descriptors() < before
    });
    let model = site.agent().load(&path).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    assert!(site.is_sound());
}

/// Lets each read of the file happen after a while, as long as this lives.
struct Slow {
    done: Arc<AtomicBool>,
    answers: Option<std::thread::JoinHandle<()>>,
}

impl Slow {
    fn new(path: &Path, pause: Duration) -> Option<Self> {
        let stuck = Stuck::new(path)?;
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let answers = std::thread::spawn(move || {
            let asks = stuck.asks;
            while !until.load(Ordering::Relaxed) {
                let mut ready = [PollFd::new(asks.as_fd(), PollFlags::POLLIN)];
                if poll(&mut ready, 50_u16).unwrap() == 0 {
                    continue;
                }
                for event in asks.read_events().unwrap() {
                    std::thread::sleep(pause);
                    let file = event.fd().unwrap();
                    let allowed = FanotifyResponse::new(file, Response::FAN_ALLOW);
                    asks.write_response(allowed).unwrap();
                }
            }
        });
        Some(Self {
            done,
            answers: Some(answers),
        })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(answers) = self.answers.take() {
            answers.join().unwrap();
        }
    }
}

/// It never stands still, so nothing but its speed distinguishes it from a file that is read well.
#[test]
fn a_file_that_gives_a_few_bytes_whenever_it_would_be_given_up_loses_its_turn() {
    let options = IngestOptions {
        config: IngestConfig {
            stall_secs: 2,
            least_bytes_per_sec: 64 << 20,
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(512, options, no_room()) else {
        return;
    };
    let path = site.model("slow", 192 * MIB, 1);
    let Some(slow) = Slow::new(&path, Duration::from_millis(200)) else {
        return;
    };
    let mut raw = Raw::greeted(&site.view());
    raw.pass(ManifestKind::Safetensors, &[open(&path).as_fd()]);
    let mut told = 0;
    let refusal = loop {
        match raw.receive() {
            Message::IngestProgress { done, .. } => told = done,
            Message::IngestWaiting { .. } => {}
            Message::IngestRefused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal.reason, IngestReason::STALLED);
    assert!(
        refusal.text.contains("at least 134217728 are expected"),
        "{}",
        refusal.text
    );
    assert!(told > 0, "it was read");
    drop((raw, slow));
    eventually("the thread comes back", || site.broker.active_files() == 0);
    let model = site.agent().load(&path).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
}

#[test]
fn a_file_that_cannot_be_read_does_not_hold_up_the_end_of_the_socket() {
    let Some(mut site) = Site::plain() else {
        return;
    };
    let path = site.model("stuck", MIB, 1);
    let Some(stuck) = Stuck::new(&path) else {
        return;
    };
    let mut raw = Raw::greeted(&site.view());
    raw.pass(ManifestKind::Safetensors, &[open(&path).as_fd()]);
    eventually("it is being read", || site.broker.active_files() == 1);
    site.stop();
    // The client is hung up on.
    let mut rest = Vec::new();
    raw.0.read_to_end(&mut rest).unwrap();
    assert!(!site.store().join("daemon").exists());
    drop(stuck);
    eventually("nothing is left", || site.broker.active_files() == 0);
}

#[test]
fn a_file_that_grows_and_shrinks_while_it_is_read_harms_nothing() {
    let Some(site) = Site::plain() else { return };
    let file = || File::from(memfd_create(c"model", MFdFlags::MFD_CLOEXEC).unwrap());
    let restless = file();
    restless.set_len(24 << 20).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0_u64;
            while !done.load(Ordering::Relaxed) {
                turn += 1;
                restless.set_len((turn % 25) << 20).unwrap();
            }
        });
        for _ in 0..20 {
            match site.pass(&restless, ManifestKind::File) {
                Message::Ingested { .. } | Message::IngestRefused(_) => {}
                other => panic!("{other:?}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(site.is_sound());
    let model = site.agent().load(site.model("m", MIB, 1)).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    let endless = file();
    endless.set_len(1 << 60).unwrap();
    let reason = site.refusal(&endless, ManifestKind::File);
    assert_eq!(reason, IngestReason::TOO_LARGE);
}

#[test]
fn a_frame_that_never_ends_ends_its_own_connection_only() {
    let limits = Limits {
        idle: Duration::from_secs(2),
        ..Limits::default()
    };
    let options = IngestOptions::default();
    let Some(site) = Site::within(64, options, no_room(), limits) else {
        return;
    };
    let frame = Message::Ingest {
        kind: ManifestKind::File,
    }
    .encode();
    let mut halves: Vec<_> = (1..=5)
        .map(|bytes| {
            let mut raw = Raw::greeted(&site.view());
            raw.send(&frame[..bytes]);
            raw
        })
        .collect();
    let model = site.agent().load(site.model("m", MIB, 1)).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    for half in &mut halves {
        let mut rest = Vec::new();
        half.0.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
