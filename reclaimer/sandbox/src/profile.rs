//! Profiles: permitted paths, sockets and groups of system calls of one process.

use std::path::PathBuf;

/// Rights beneath a path, or to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Reads files and lists directories.
    Read,
    /// Reads, and makes, changes, moves and removes regular files, directories, sockets and symbolic
    /// links. No device and no pipe is made.
    Write,
    /// Opens devices for reading and writing, and sends them commands (ioctl(2)).
    Device,
}

/// A permitted family of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketFamily {
    /// Sockets of this machine (unix(7)).
    Unix,
    /// IPv4 (ip(7)).
    Inet,
    /// IPv6 (ipv6(7)).
    Inet6,
}

/// Ports of TCP that Landlock permits, from version 4 of its interface on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TcpPorts {
    /// Ports to listen at. 0 is any that the kernel chooses.
    pub(crate) bind: Vec<u16>,
    /// Ports to connect to; all when `None`.
    pub(crate) connect: Option<Vec<u16>>,
}

/// A path of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathRule {
    pub(crate) path: PathBuf,
    pub(crate) rights: Rights,
    /// False if the path may be missing. Nothing is permitted at it then.
    pub(crate) required: bool,
}

/// Rights of a process: all others are taken from it.
///
/// A new profile permits work on open files, memory, threads, time and signals to itself, and to read the few files of the
/// system that runtime libraries read. It permits no socket and no further path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub(crate) paths: Vec<PathRule>,
    pub(crate) sockets: Vec<SocketFamily>,
    pub(crate) tcp: TcpPorts,
    pub(crate) drivers: bool,
}

/// Files that the standard library, the allocator and the store's code read: limits and processors of
/// this machine and container, locks and mounts, random bytes, page sizes, numbers of disks. A program that is linked statically
/// finds no `getrandom` of its C library, and reads both files instead: the first to wait until there is entropy.
const SYSTEM: [(&str, Rights); 8] = [
    ("/proc", Rights::Read),
    ("/dev/random", Rights::Read),
    ("/dev/urandom", Rights::Read),
    ("/dev/null", Rights::Write),
    ("/sys/devices", Rights::Read),
    ("/sys/dev/block", Rights::Read),
    ("/sys/fs/cgroup", Rights::Read),
    ("/sys/kernel/mm/transparent_hugepage", Rights::Read),
];

impl Default for Profile {
    fn default() -> Self {
        let this = Self {
            paths: Vec::new(),
            sockets: Vec::new(),
            tcp: TcpPorts::default(),
            drivers: false,
        };
        SYSTEM.into_iter().fold(this, |this, (path, rights)| {
            this.path_if_present(path, rights)
        })
    }
}

impl Profile {
    /// Permits `rights` beneath `path`, which must be there when the process enters the sandbox.
    #[must_use]
    pub fn path(self, path: impl Into<PathBuf>, rights: Rights) -> Self {
        self.with_path(path.into(), rights, true)
    }

    /// Permits `rights` beneath `path`, if it is there when the process enters the sandbox.
    #[must_use]
    pub fn path_if_present(self, path: impl Into<PathBuf>, rights: Rights) -> Self {
        self.with_path(path.into(), rights, false)
    }

    fn with_path(mut self, path: PathBuf, rights: Rights, required: bool) -> Self {
        self.paths.push(PathRule {
            path,
            rights,
            required,
        });
        self
    }

    /// Permits sockets of `family`.
    #[must_use]
    pub fn sockets(mut self, family: SocketFamily) -> Self {
        self.sockets.push(family);
        self
    }

    /// Permits to listen at a port of TCP. 0 is any that the kernel chooses.
    #[must_use]
    pub fn listen_at(mut self, port: u16) -> Self {
        self.tcp.bind.push(port);
        self
    }

    /// Permits to connect to these ports of TCP and to no others.
    #[must_use]
    pub fn connect_to(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.tcp.connect.get_or_insert_default().extend(ports);
        self
    }

    /// Permits the work of device drivers' libraries in this process: commands to devices, code that is loaded or made at
    /// run time, memory bound to a node of the machine.
    #[must_use]
    pub fn drivers(mut self) -> Self {
        self.drivers = true;
        self
    }

    /// True if the process has sockets of TCP.
    pub(crate) fn has_tcp(&self) -> bool {
        self.sockets
            .iter()
            .any(|family| matches!(family, SocketFamily::Inet | SocketFamily::Inet6))
    }
}
