//! Counts of files that processes open.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use nix::fcntl::AT_FDCWD;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};

use tetris_test_support::skipped::skipped;

/// Counts the records of a store opened while it lives. The kernel asks for each: it merges none.
pub struct Opens {
    count: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Opens {
    /// `None`, which is said, where the kernel has no such thing.
    pub fn of_records(store: &Path) -> Option<Self> {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let asks = Fanotify::init(flags, EventFFlags::O_RDONLY).and_then(|asks| {
            for folder in ["manifests-v1", "identities-v1", "derived-v1"] {
                let mask = MaskFlags::FAN_OPEN_PERM | MaskFlags::FAN_EVENT_ON_CHILD;
                let path = store.join(folder);
                asks.mark(MarkFlags::FAN_MARK_ADD, mask, AT_FDCWD, Some(&path))?;
            }
            Ok(asks)
        });
        let asks = match asks {
            Ok(asks) => asks,
            Err(error) => {
                skipped(&format!("needs fanotify: {error}"));
                return None;
            }
        };
        let (count, ended) = (Arc::default(), Arc::default());
        let thread = std::thread::spawn({
            let (count, ended) = (Arc::clone(&count), Arc::clone(&ended));
            move || answer(&asks, &count, &ended)
        });
        Some(Self {
            count,
            ended,
            thread: Some(thread),
        })
    }

    /// Number of opened files.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

fn answer(asks: &Fanotify, count: &AtomicU64, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(asks.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, 50_u16).unwrap() == 0 {
            continue;
        }
        for event in asks.read_events().unwrap() {
            count.fetch_add(1, Ordering::Relaxed);
            let file = event.fd().unwrap();
            let allowed = FanotifyResponse::new(file, Response::FAN_ALLOW);
            asks.write_response(allowed).unwrap();
        }
    }
}

impl Drop for Opens {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
