//! A daemon that is away for a moment: it has stopped, and its successor does not listen yet.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tetris_store_layout::{SOCKET_USER, Store};

use super::room::Patience;

/// Longest wait for a successor. A rollout on Kubernetes takes 1 to 3 s.
const LONGEST: Duration = Duration::from_secs(5);
/// A daemon that stopped longer ago has no successor.
const LATELY: Duration = Duration::from_secs(30);
/// Making a store changes its directory until then, after its header.
const MAKING: Duration = Duration::from_secs(1);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for daemons that are away. One for each agent, shared by its loads.
#[derive(Debug)]
pub(crate) struct Absence {
    /// Lost when no one came.
    patience: Patience,
    longest: Duration,
}

impl Default for Absence {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            longest: LONGEST,
        }
    }
}

impl Absence {
    /// Waits for the daemon of `store` for at most 5 s, if one has stopped a moment ago, or one that has just come
    /// cannot be connected to yet.
    pub(crate) fn wait(&self, store: &Store) {
        if self.patience.is_left(Instant::now()) && !wait_for_successor(store, self.longest) {
            tracing::debug!("the node's daemon has stopped, and no other one came");
            self.patience.lose(Instant::now());
        }
    }
}

/// Returns false if the daemon of `store` has stopped a moment ago, and no one that clients can connect to came
/// within `longest`.
///
/// A daemon that stops unlinks its socket (LAYOUT.md 11.1), which changes the store's directory. Nothing
/// else does once the store is made, but other work of a daemon.
fn wait_for_successor(store: &Store, longest: Duration) -> bool {
    let begun = Instant::now();
    while !is_served(store) {
        if !has_changed_lately(store.root(), SystemTime::now()) {
            return true;
        }
        if begun.elapsed() >= longest {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Returns true if clients can connect to the socket of `store`, as far as its file shows: it is there, and where pods
/// see no owner of the store, it was given to the user that they see (LAYOUT.md 4).
fn is_served(store: &Store) -> bool {
    match store.daemon_socket().symlink_metadata() {
        Ok(found) => found.uid() == SOCKET_USER || !store.hides_owner(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn has_changed_lately(root: &Path, now: SystemTime) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let (Some(changed), Some(made)) = (modified(root), modified(&root.join("store"))) else {
        return false;
    };
    // An error is a time of the future, of a clock that was set back: no one waits.
    let made_before = changed.duration_since(made);
    let ago = now.duration_since(changed);
    made_before.is_ok_and(|time| time >= MAKING) && ago.is_ok_and(|time| time < LATELY)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};

    use tetris_store_layout::CreateOptions;

    use super::*;

    /// A store whose header and directory are of so many seconds ago, without a socket.
    fn store(header_s: u64, directory_s: u64) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        for (path, age) in [
            (dir.path().join("store"), header_s),
            (dir.path().to_owned(), directory_s),
        ] {
            let at = SystemTime::now() - Duration::from_secs(age);
            let times = FileTimes::new().set_modified(at);
            File::open(path).unwrap().set_times(times).unwrap();
        }
        (dir, store)
    }

    #[test]
    fn a_successor_is_waited_for_where_a_socket_was_taken_away_lately() {
        let (_dir, store) = store(3600, 2);
        assert!(
            !wait_for_successor(&store, Duration::from_millis(1)),
            "nobody comes"
        );
        let socket = store.daemon_socket();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(2 * PAUSE);
                fs::write(&socket, "").unwrap();
            });
            assert!(wait_for_successor(&store, Duration::from_mins(1)));
            assert!(socket.exists(), "it came before the wait was over");
        });
    }

    #[test]
    fn nobody_waits_without_a_daemon_that_stopped_a_moment_ago() {
        for (header_s, directory_s, what) in [
            (3600, 60, "it stopped long ago"),
            (2, 2, "the store was made, and never had one"),
            (3600, 3600, "the store never had one"),
        ] {
            let (_dir, store) = store(header_s, directory_s);
            assert!(wait_for_successor(&store, Duration::ZERO), "{what}");
        }
        let (dir, store) = store(3600, 2);
        fs::write(dir.path().join("daemon"), "").unwrap();
        assert!(
            wait_for_successor(&store, Duration::ZERO),
            "there is a socket"
        );
    }

    #[test]
    fn a_wait_in_vain_is_the_last_one_for_a_while() {
        let absence = Absence {
            longest: Duration::from_millis(1),
            ..Absence::default()
        };
        let (_dir, usual) = store(3600, 3600);
        absence.wait(&usual);
        assert!(absence.patience.is_left(Instant::now()));
        let (_dir, left) = store(3600, 2);
        absence.wait(&left);
        assert!(!absence.patience.is_left(Instant::now()));
    }
}
