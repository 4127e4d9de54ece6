//! Attempts that fail.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;
use tetris_sandbox::{Profile, SandboxError, SocketFamily, enter};

use crate::{Ground, Test, broker, enter_with_landlock, harness};

pub const TESTS: &[Test] = &[
    (
        "refused::programs_namespaces_mounts_and_traces",
        privileged_calls,
    ),
    ("refused::sockets_of_the_network", network),
    ("refused::signals_to_other_processes", signals),
    ("refused::paths_outside_of_the_profile", PATHS.1),
    (
        "refused::a_thread_that_starts_later_has_no_more_rights",
        LATER.1,
    ),
    ("refused::ports_that_are_not_of_the_profile", PORTS.1),
    ("refused::abstract_sockets_of_others", ABSTRACT.1),
    ("refused::a_process_with_threads", threads_before),
    ("refused::a_profile_with_a_missing_path", missing_path),
];

const PATHS: Test = ("refused::paths_outside_of_the_profile", paths);
const LATER: Test = (
    "refused::a_thread_that_starts_later_has_no_more_rights",
    a_later_thread,
);
const PORTS: Test = ("refused::ports_that_are_not_of_the_profile", ports);
const ABSTRACT: Test = ("refused::abstract_sockets_of_others", abstract_sockets);

#[track_caller]
fn denied<T>(what: io::Result<T>) {
    let error = what.err().expect("the attempt fails");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

fn privileged_calls(ground: &Ground) {
    enter(&broker(ground)).unwrap();
    denied(Command::new("/bin/true").status());
    let program = CString::new("/bin/true").unwrap();
    let Err(error) = nix::unistd::execv(&program, &[&program]);
    assert_eq!(error, Errno::EPERM);
    for namespace in [CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNS] {
        assert_eq!(unshare(namespace), Err(Errno::EPERM));
    }
    let tmpfs = Some("tmpfs");
    let mounted = nix::mount::mount(
        tmpfs,
        &ground.store(),
        tmpfs,
        MsFlags::empty(),
        None::<&str>,
    );
    assert_eq!(mounted, Err(Errno::EPERM));
    assert_eq!(nix::sys::ptrace::traceme(), Err(Errno::EPERM));
    assert_eq!(nix::unistd::chdir("/proc"), Err(Errno::EPERM));
    assert_eq!(nix::unistd::chroot("/proc"), Err(Errno::EPERM));
    assert_eq!(
        nix::unistd::setuid(nix::unistd::getuid()),
        Err(Errno::EPERM)
    );
}

fn network(ground: &Ground) {
    enter(&broker(ground)).unwrap();
    denied(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    denied(TcpStream::connect((Ipv4Addr::LOCALHOST, 1)));
    denied(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    denied(TcpListener::bind("[::1]:0"));
}

fn signals(ground: &Ground) {
    enter(&broker(ground)).unwrap();
    assert_eq!(kill(getppid(), None), Err(Errno::EPERM));
    assert_eq!(kill(getppid(), Signal::SIGTERM), Err(Errno::EPERM));
}

/// The files of the system and of another tenant. Root could open all of them by its capabilities.
fn paths(ground: &Ground) {
    let inside = ground.store().join("file");
    fs::write(&inside, "x").unwrap();
    symlink(ground.secret(), ground.store().join("link")).unwrap();
    if enter_with_landlock(PATHS.0, &broker(ground), 2).is_none() {
        return;
    }
    // A machine of an emulator has no passwords.
    let system = ["/etc/passwd", "/etc/shadow"].map(|file| (file, fs::metadata(file).is_ok()));
    assert!(system[0].1);
    for (file, _) in system.iter().filter(|(_, there)| *there) {
        denied(File::open(file));
    }
    denied(fs::read_dir("/"));
    denied(File::open(ground.secret()));
    denied(File::open(ground.store().join("../other/secret")));
    denied(File::open(ground.store().join("link")));
    denied(OpenOptions::new().write(true).open(ground.secret()));
    denied(File::create(ground.other().join("new")));
    denied(fs::remove_file(ground.secret()));
    denied(fs::create_dir(ground.other().join("directory")));
    // Neither out nor in: the kernel reports that the directories are of two file systems.
    for (from, to) in [
        (inside.clone(), ground.other().join("file")),
        (ground.secret(), ground.store().join("secret")),
    ] {
        let error = fs::rename(&from, &to).unwrap_err();
        let kinds = [ErrorKind::PermissionDenied, ErrorKind::CrossesDevices];
        assert!(kinds.contains(&error.kind()), "{error}");
        fs::hard_link(&from, &to).unwrap_err();
    }
    // Nor is anything written where only reading is permitted.
    denied(
        OpenOptions::new()
            .write(true)
            .open("/proc/self/oom_score_adj"),
    );
    fs::read_to_string(&inside).unwrap();
    fs::write(inside, "y").unwrap();
}

fn a_later_thread(ground: &Ground) {
    if enter_with_landlock(LATER.0, &broker(ground), 2).is_none() {
        return;
    }
    let secret = ground.secret();
    std::thread::spawn(move || {
        denied(File::open(secret));
        denied(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
    })
    .join()
    .unwrap();
}

fn ports(ground: &Ground) {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let [server, other, released, not_ours] = [free(), free(), free(), free()];
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (own, foreign) = (port(&released), port(&not_ours));
    drop((released, not_ours));
    let profile = broker(ground)
        .sockets(SocketFamily::Inet)
        .listen_at(own)
        .connect_to([port(&server)]);
    if enter_with_landlock(PORTS.0, &profile, 4).is_none() {
        return;
    }
    TcpStream::connect(server.local_addr().unwrap()).unwrap();
    denied(TcpStream::connect(other.local_addr().unwrap()));
    TcpListener::bind((Ipv4Addr::LOCALHOST, own)).unwrap();
    denied(TcpListener::bind((Ipv4Addr::LOCALHOST, foreign)));
}

fn abstract_sockets(ground: &Ground) {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let name = format!("tetris-sandbox-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    // It belongs to no one's sandbox.
    let _listener = UnixListener::bind_addr(&address).unwrap();
    if enter_with_landlock(ABSTRACT.0, &broker(ground), 6).is_some() {
        denied(UnixStream::connect_addr(&address));
    }
}

fn threads_before(ground: &Ground) {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ended.recv());
    let error = enter(&broker(ground)).unwrap_err();
    assert!(
        matches!(error, SandboxError::Threads { found: 2 }),
        "{error}"
    );
    drop(end);
    drop(thread.join());
}

fn missing_path(ground: &Ground) {
    let missing = ground.root().join("missing");
    let profile = Profile::default().path(&missing, tetris_sandbox::Rights::Read);
    match enter(&profile) {
        Err(error @ SandboxError::Path { .. }) => {
            assert!(
                error.to_string().contains(missing.to_str().unwrap()),
                "{error}"
            );
        }
        Ok(status) if status.landlock.is_none() => {
            harness::skipped("refused::a_profile_with_a_missing_path", "needs Landlock");
        }
        other => panic!("{other:?}"),
    }
}
