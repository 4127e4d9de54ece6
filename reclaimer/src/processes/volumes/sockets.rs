//! Sockets of stores, given to the user that pods' mounts show.
//!
//! Idmapped mounts of pods give the owner of the stores no id, and a socket whose owner has none
//! cannot be connected to (LAYOUT.md 4). The processes that listen have no right to give files
//! away, so this one does: of each store it looks at the two names that pods connect to, when the
//! kernel reports a change of its directory, and every second. A file that is no socket of the
//! stores' owner stays as it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, openat};
use rustix::io::Errno;
use tetris_store_layout::SOCKET_USER;
use tokio::sync::watch;

use super::wanted::WantedVolumes;
use crate::mount::StoreDirectory;

/// Name of the daemon's socket in a store (LAYOUT.md 1), and that of the GPU mirror.
const DAEMON: &str = "daemon";
const GPU: &str = "gpu";

/// Longest time between two looks.
const EVERY: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Shortest time between two looks. A directory that changes over and over costs no more.
const PAUSE: Duration = Duration::from_millis(20);

/// Gives the sockets of a store. Returns true if the daemon's socket is given.
pub(super) fn give(store: &StoreDirectory) -> bool {
    let [daemon, _gpu] = [DAEMON, GPU].map(|name| match give_one(store, name) {
        Ok(given) => given,
        Err(error) => {
            let path = store.path().join(name);
            tracing::warn!(path = %path.display(), %error, "a socket cannot be given to the user that pods see");
            false
        }
    });
    daemon
}

/// All by one descriptor: another file in its place gets nothing.
fn give_one(store: &StoreDirectory, name: &str) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(store, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        file => file?,
    };
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Ok(false);
    }
    if stat.st_uid == store.user() && stat.st_uid != SOCKET_USER {
        let (uid, gid) = (Uid::from_raw(SOCKET_USER), Gid::from_raw(SOCKET_USER));
        chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
        tracing::debug!(path = %store.path().join(name).display(), "socket given");
        return Ok(true);
    }
    Ok(stat.st_uid == SOCKET_USER)
}

/// The thread that gives sockets. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct SocketGiver {
    ended: Arc<AtomicBool>,
}

impl SocketGiver {
    /// Starts it, for the stores of the latest configuration.
    pub(super) fn start(wanted: watch::Receiver<WantedVolumes>) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let changes = changes.inspect_err(|error| {
            tracing::warn!(%error, "no signals of changed directories; sockets are looked for every second");
        });
        let (changes, stop) = (changes.ok(), Arc::clone(&ended));
        let thread = std::thread::Builder::new().name("sockets".to_owned());
        thread.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let now = wanted.borrow().clone();
                look(&now, changes.as_ref());
                std::thread::sleep(PAUSE);
                wait(changes.as_ref());
            }
        })?;
        Ok(Self { ended })
    }
}

impl Drop for SocketGiver {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn look(wanted: &WantedVolumes, changes: Option<&OwnedFd>) {
    let watch = |dir: &dyn AsFd| {
        if let Some(changes) = changes {
            watch_directory(changes, dir);
        }
    };
    if let Some(parent) = wanted.parent() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(parent) = openat(rustix::fs::CWD, parent, flags, Mode::empty()) {
            watch(&parent);
        }
    }
    let (ground, directories) = wanted.directories();
    for path in directories {
        // What is no directory is no store; the broker reports it.
        if let Ok(Some(store)) = ground.open(&path) {
            watch(&store);
            give(&store);
        }
    }
}

/// Has the kernel tell of new names there. One that is watched already stays so; without a watch,
/// a look comes within a second.
fn watch_directory(changes: &OwnedFd, dir: &dyn AsFd) {
    let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    if let Err(error) = inotify::add_watch(changes, path, events) {
        tracing::debug!(%error, "a store's directory is not watched; it is looked at every second");
    }
}

/// Waits for a change, or a second.
fn wait(changes: Option<&OwnedFd>) {
    let Some(changes) = changes else {
        std::thread::sleep(Duration::from_secs(1));
        return;
    };
    let mut ready = [PollFd::new(changes, PollFlags::IN)];
    let _changed = poll(&mut ready, Some(&EVERY));
    // What changed is looked for, not read from the events.
    let mut events = [0; 4096];
    while rustix::io::read(changes, &mut events).is_ok_and(|length| length > 0) {}
}
