//! Work that goes on.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tetris_sandbox::{Rights, enter};
use tetris_store_layout::{Access, CreateOptions, Reclaimed, Store};

use crate::{Ground, Test, broker, enter_with_landlock, harness};

pub const TESTS: &[Test] = &[
    (
        "permitted::threads_time_and_randomness",
        threads_time_and_randomness,
    ),
    (
        "permitted::a_store_is_made_and_objects_are_published_mapped_and_reclaimed",
        a_store,
    ),
    (
        "permitted::a_descriptor_comes_over_a_socket_and_is_read",
        a_descriptor,
    ),
    (
        "permitted::a_tmpfs_that_is_mounted_later_is_beneath_its_path",
        a_later_mount,
    ),
    ("permitted::files_that_were_open_stay_so", open_files),
    (
        "permitted::seals_of_memory_are_asked_for_and_it_is_read",
        sealed_memory,
    ),
    (
        "permitted::a_path_that_may_be_missing_is_missing",
        a_missing_path,
    ),
];

fn threads_time_and_randomness(ground: &Ground) {
    enter(&broker(ground)).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let name = format!("thread {number}");
            let work = move || {
                std::thread::sleep(Duration::from_millis(1));
                std::collections::HashMap::from([(number, vec![0_u8; 1 << 20])]).len()
            };
            std::thread::Builder::new().name(name).spawn(work).unwrap()
        })
        .collect();
    let all: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert_eq!(all, 8);
    assert!(std::thread::available_parallelism().unwrap().get() > 0);
    for path in ["/dev/random", "/dev/urandom"] {
        let mut random = [0];
        let mut file = File::open(path).unwrap();
        file.read_exact(&mut random).unwrap();
    }
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGCONT).unwrap();
}

fn a_store(ground: &Ground) {
    enter(&broker(ground)).unwrap();
    let store = Store::create(ground.store(), &CreateOptions::default()).unwrap();
    let published = store.publish(b"weights", Access::ReadOnly).unwrap();
    let object = published.object;
    assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
    drop(published);
    assert!(matches!(
        store.reclaim(&object).unwrap(),
        Reclaimed::Freed { .. }
    ));
    // Moves between directories of the store, as quarantine makes them.
    let (from, to) = (ground.store().join("a"), ground.store().join("b"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("file"), "x").unwrap();
    fs::rename(from.join("file"), to.join("file")).unwrap();
    fs::remove_dir_all(&to).unwrap();
}

fn a_descriptor(ground: &Ground) {
    // A file of someone else, whose path is out of reach in the sandbox.
    let file = File::open(ground.secret()).unwrap();
    enter(&broker(ground)).unwrap();
    let path = ground.store().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let client = std::thread::spawn(move || {
        let stream = UnixStream::connect(path).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [file.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let bytes = [IoSlice::new(b"x")];
        sendmsg(&stream, &bytes, &mut control, SendFlags::empty()).unwrap();
    });
    let (stream, _) = listener.accept().unwrap();
    client.join().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let bytes = &mut [IoSliceMut::new(&mut byte)];
    recvmsg(&stream, bytes, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
        _ => None,
    });
    let mut text = String::new();
    File::from(passed.unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "secret");
}

/// The broker may start before the stores' tmpfs is mounted.
#[expect(
    clippy::zombie_processes,
    reason = "nobody waits for a child in the sandbox, and this process ends with the test"
)]
fn a_later_mount(ground: &Ground) {
    let test = "permitted::a_tmpfs_that_is_mounted_later_is_beneath_its_path";
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return harness::skipped(test, "needs root to mount");
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let mount = ground.store().join("mount");
    fs::create_dir(&mount).unwrap();
    let mut helper = Command::new("sh")
        .args([
            "-c",
            "read start && mount -t tmpfs tmpfs \"$0\" && echo mounted",
        ])
        .arg(&mount)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let profile = broker(ground).path(&mount, Rights::Write);
    let entered = enter_with_landlock(test, &profile, 2);
    helper.stdin.take().unwrap().write_all(b"start\n").unwrap();
    let mut said = String::new();
    let mut out = BufReader::new(helper.stdout.take().unwrap());
    out.read_line(&mut said).unwrap();
    assert_eq!(said, "mounted\n");
    if entered.is_some() {
        fs::write(mount.join("file"), "x").unwrap();
        assert_eq!(fs::read_dir(&mount).unwrap().count(), 1);
    }
}

fn sealed_memory(ground: &Ground) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("test", flags).unwrap());
    (&file).write_all(b"weights").unwrap();
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    enter(&broker(ground)).unwrap();
    assert_eq!(fcntl_get_seals(&file).unwrap(), SealFlags::WRITE);
    let mut bytes = [0; 7];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"weights");
}

fn open_files(ground: &Ground) {
    let secret = File::open(ground.secret()).unwrap();
    enter(&broker(ground)).unwrap();
    let mut text = String::new();
    (&secret).read_to_string(&mut text).unwrap();
    assert_eq!(text, "secret");
    assert_eq!(secret.metadata().unwrap().len(), 6);
}

fn a_missing_path(ground: &Ground) {
    let missing = ground.root().join("missing");
    enter(&broker(ground).path_if_present(missing, Rights::Read)).unwrap();
}
