//! A process that holds a lease on a file, as root of a container could.
#![allow(
    dead_code,
    reason = "not every binary of tests takes every kind of lease"
)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Takes a lease, reports it, and keeps it until its input ends. The signal that asks for it is ignored. With `container`
/// it first drops what root of a container does not have by default, CAP_LEASE among it.
const HOLDER: &str = r#"
import ctypes, fcntl, os, signal, sys
path, kind, rights = sys.argv[1:4]
if rights == "container":
    kept = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
    for capability in range(64):
        if capability not in kept:
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], path, kind, "node"])
signal.signal(signal.SIGIO, signal.SIG_IGN)
try:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if kind == "none":
        print("read", flush=True)
    else:
        fcntl.fcntl(file, fcntl.F_SETLEASE, getattr(fcntl, kind))
        print("held", flush=True)
except OSError as error:
    print(error.errno, flush=True)
sys.stdin.read()
"#;

/// Rights of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of this process.
    Node,
    /// Those of root in a container without further capabilities.
    Container,
}

/// A process that holds a lease.
#[derive(Debug)]
pub struct Lease {
    child: Child,
    /// The file's inode.
    inode: u64,
}

impl Lease {
    /// A write lease, which conflicts with every open of the file.
    ///
    /// # Panics
    ///
    /// If it cannot be had.
    pub fn write(path: &Path) -> Self {
        Self::attempt(path, "F_WRLCK", Rights::Node).unwrap()
    }

    /// A read lease, which conflicts with every open for writing.
    ///
    /// # Panics
    ///
    /// If it cannot be had.
    pub fn read(path: &Path) -> Self {
        Self::attempt(path, "F_RDLCK", Rights::Node).unwrap()
    }

    /// A lease of this kind, or the number of the error.
    pub fn attempt(path: &Path, kind: &str, rights: Rights) -> Result<Self, i32> {
        let rights = match rights {
            Rights::Node => "node",
            Rights::Container => "container",
        };
        let mut child = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(path)
            .args([kind, rights])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 cannot be run");
        let mut said = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut said).unwrap();
        let inode = std::fs::metadata(path).unwrap().ino();
        let lease = Self { child, inode };
        match said.trim() {
            "held" | "read" => Ok(lease),
            error => Err(error.parse().unwrap_or_else(|_| panic!("said {error:?}"))),
        }
    }

    /// Returns true if the kernel still has the lease. What ended before this was asked did not wait for its end.
    pub fn is_held(&self) -> bool {
        // The list is read in pieces, and a line may be missing where locks of others come and go meanwhile.
        (0..20).any(|_| self.is_listed())
    }

    fn is_listed(&self) -> bool {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let place = format!(":{} ", self.inode);
        let mut lines = locks.lines();
        lines.any(|line| line.contains("LEASE") && line.contains(&place))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
