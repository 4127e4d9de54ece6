//! A daemon that publishes for workers, and the read-only view of its store, like that of a pod.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::pipes::Tail;
use crate::system::machine;

/// Hidden first argument that makes the program the daemon; the other arguments are for
/// `tetris-node`.
pub const DAEMON: &str = "__daemon";
/// The daemon's socket in its store (LAYOUT.md 11).
const SOCKET: &str = "daemon";
const POLL: Duration = Duration::from_millis(10);
/// Time limit for the start of the daemon.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon and the view. The drop ends both.
pub struct Broker {
    daemon: Child,
    stderr: Option<JoinHandle<()>>,
    view: PathBuf,
}

/// The reason a daemon cannot run here; `None` if it can.
pub fn unavailable() -> Option<String> {
    (!machine::is_root()).then(|| "needs root, to mount the store read-only".to_owned())
}

impl Broker {
    /// Starts the daemon for `store` and waits until it answers. `program` is this executable.
    /// Creates the view at `view`, which must not exist.
    pub fn start(program: &Path, store: &Path, view: PathBuf) -> Result<Self> {
        fs::create_dir(&view).map_err(Error::io("create", &view))?;
        let mut daemon = Command::new(program)
            .args([DAEMON, "run", "--log", "warn", "--store"])
            .arg(format!("density={}", store.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::io("start", program))?;
        let followed = daemon.stderr.take().map(Tail::follow);
        let (tail, stderr) = followed.unzip();
        let mut broker = Self {
            daemon,
            stderr,
            view,
        };
        broker.wait(&store.join(SOCKET), &tail.unwrap_or_default())?;
        bind_read_only(store, &broker.view).map_err(|error| Error::Io {
            action: "mount a read-only view at",
            path: broker.view.clone(),
            source: error.into(),
        })?;
        Ok(broker)
    }

    /// The store as workers see it.
    pub fn view(&self) -> &Path {
        &self.view
    }

    /// The daemon's process id.
    pub fn pid(&self) -> u32 {
        self.daemon.id()
    }

    fn wait(&mut self, socket: &Path, stderr: &Tail) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(socket).is_err() {
            let ended = self
                .daemon
                .try_wait()
                .map_err(Error::io("wait for", socket))?;
            if interrupt::raised() {
                return Err(Error::Interrupted);
            }
            if ended.is_some() || Instant::now() > deadline {
                let reason = format!("the daemon does not answer: {}", stderr.text().trim());
                let path = socket.to_path_buf();
                return Err(Error::Store { path, reason });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Mounts the view in this process's own mount namespace, so that a later remount affects no other
/// process.
fn bind_read_only(store: &Path, view: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    mount(Some(store), view, none, MsFlags::MS_BIND, none)?;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, view, none, read_only, none)
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _: io::Result<()> = self.daemon.kill();
        let _ = self.daemon.wait();
        if let Some(reader) = self.stderr.take() {
            let _ = reader.join();
        }
        let _ = umount2(&self.view, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.view);
    }
}
