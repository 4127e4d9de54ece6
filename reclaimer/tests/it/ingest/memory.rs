//! Clients that can only read the store publish what they made in memory.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::libc;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tetris_agent::daemon::sealed_memory;
use tetris_agent::{Agent, LoadOptions, Origin, PrivateCause, ShareError};
use tetris_node::ingest::{IngestConfig, IngestOptions};
use tetris_store_layout::{ObjectRef, SEGMENT_BYTES, TensorId};
use tetris_wire::daemon::{IngestReason, IngestRefusal, Message};

use crate::ingest::ground::tensor;
use crate::ingest::harness::{Raw, Site, descriptors, eventually, no_room, open, with_quota};
use tetris_test_support::alone::alone;

const MIB: usize = 1 << 20;
/// More than a segment, and no multiple of a page.
const LEN: usize = SEGMENT_BYTES as usize + 4321;

fn reader(bytes: &[u8]) -> impl Fn(u64, &mut [u8]) + Sync {
    move |at, to| {
        let begin = at as usize;
        to.copy_from_slice(&bytes[begin..begin + to.len()]);
    }
}

fn publish(agent: &Agent, bytes: &[u8]) -> Result<Origin, ShareError> {
    let options = LoadOptions::default();
    let region = agent.publish(bytes.len() as u64, &reader(bytes), &options)?;
    assert_eq!(region.object(), Some(&ObjectRef::of(bytes)));
    Ok(region.origin())
}

/// Sealed memory of these bytes.
fn sealed(bytes: &[u8]) -> OwnedFd {
    sealed_memory(bytes.len() as u64, &reader(bytes), 2).unwrap()
}

/// Memory of these bytes with these seals.
fn with_seals(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("test", flags).unwrap());
    file.write_all_at(bytes, 0).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

impl Site {
    /// Passes memory that is to become `object`, and returns the answer.
    fn pass_memory(&self, memory: impl AsFd, object: ObjectRef) -> Message {
        let mut raw = Raw::greeted(&self.view());
        raw.pass_memory(object, &[memory.as_fd()]);
        let answer = raw.answer();
        raw.send(&Message::IngestDone.encode());
        answer
    }

    fn memory_refusal(&self, memory: impl AsFd, object: ObjectRef) -> IngestRefusal {
        match self.pass_memory(memory, object) {
            Message::IngestRefused(refusal) => refusal,
            other => panic!("no refusal: {other:?}"),
        }
    }
}

#[test]
fn what_a_reader_made_is_published_once_and_found_by_the_next() {
    let Some(site) = Site::plain() else { return };
    let bytes = tensor(LEN, 3);
    let agent = site.agent();
    assert!(!agent.store().unwrap().is_writable());
    assert_eq!(publish(&agent, &bytes).unwrap(), Origin::New);
    assert_eq!(site.broker.counts().bytes_read, LEN as u64);
    eventually("the daemon lets go", || site.broker.active_files() == 0);
    assert_eq!(publish(&site.agent(), &bytes).unwrap(), Origin::Shared);
    assert_eq!(site.broker.counts().served, 1, "the second asks nobody");
    assert_eq!(site.objects(), 1);
    assert!(site.is_sound());
    // Two made at once meet at the daemon, which reads one of them.
    let other = tensor(LEN, 4);
    let object = ObjectRef::of(&other);
    for read in [LEN as u64, 0] {
        let Message::Published { bytes_read, .. } = site.pass_memory(sealed(&other), object) else {
            panic!("not taken");
        };
        assert_eq!(bytes_read, read);
    }
    assert_eq!(site.objects(), 2);
}

#[test]
fn what_is_derived_by_readers_has_one_copy() {
    let Some(site) = Site::plain() else { return };
    let source = TensorId::of(b"source");
    let options = LoadOptions::default();
    for origin in [Origin::New, Origin::Shared] {
        let make = || Ok::<_, ()>(tensor(LEN, 5));
        let derived = site.agent().derive(source, "cast", 1, &options, make);
        let derived = derived.unwrap().unwrap();
        assert_eq!(derived.private_reason(), None);
        assert_eq!(derived.origin(), origin);
        assert_eq!(&*derived, tensor(LEN, 5));
    }
    assert_eq!(site.objects(), 1);
}

#[test]
fn memory_that_can_change_or_is_none_is_refused_and_leaves_nothing() {
    if !alone() {
        return;
    }
    let options = IngestOptions {
        config: IngestConfig {
            max_file_bytes: Some(8 << 20),
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(64, options, no_room()) else {
        return;
    };
    let bytes = tensor(MIB, 3);
    let object = ObjectRef::of(&bytes);
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let before = descriptors();
    let refused = |memory: OwnedFd, object: ObjectRef, reason: IngestReason, says: &str| {
        let refusal = site.memory_refusal(memory, object);
        assert_eq!(refusal.reason, reason, "{}", refusal.text);
        assert!(refusal.text.contains(says), "{}", refusal.text);
    };
    let not_sealed = IngestReason::NOT_SEALED;
    for (seals, says) in [
        (SealFlags::empty(), "found none"),
        (
            SealFlags::SHRINK | SealFlags::GROW,
            "found F_SEAL_SHRINK, F_SEAL_GROW;",
        ),
        (SealFlags::WRITE, "found F_SEAL_WRITE;"),
        // As a process would that keeps a writable mapping, or whose child does.
        (
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE,
            "F_SEAL_FUTURE_WRITE;",
        ),
    ] {
        refused(with_seals(&bytes, seals), object, not_sealed, says);
    }
    // A file of a tmpfs takes no seals but the one against further ones.
    let shm = tempfile::tempfile_in("/dev/shm").unwrap();
    shm.write_all_at(&bytes, 0).unwrap();
    refused(shm.into(), object, not_sealed, "found F_SEAL_SEAL;");
    let sparse = || {
        let file = File::from(with_seals(&[1], SealFlags::empty()));
        file.set_len(MIB as u64).unwrap();
        fcntl_add_seals(&file, all).unwrap();
        OwnedFd::from(file)
    };
    refused(
        sparse(),
        object,
        IngestReason::SPARSE,
        "found pages for 4096",
    );
    let changed = IngestReason::CHANGED;
    let longer = ObjectRef {
        len: object.len + 1,
        ..object
    };
    refused(sealed(&bytes), longer, changed, "found 1048576");
    let other = ObjectRef::of(&tensor(MIB, 4));
    refused(sealed(&bytes), other, changed, "makes the object");
    let empty = ObjectRef::of(&[]);
    refused(with_seals(&[], all), empty, IngestReason::EMPTY, "no bytes");
    let large = vec![7; 9 * MIB];
    let too_large = ObjectRef::of(&large);
    refused(
        sealed(&large),
        too_large,
        IngestReason::TOO_LARGE,
        "max_file_bytes",
    );
    let not_memory = IngestReason::NOT_MEMORY;
    let file = open(&site.file("plain", &bytes));
    let on_disk = !site.dir.path().starts_with("/dev/shm");
    if on_disk
        && nix::sys::statfs::fstatfs(&file).unwrap().filesystem_type()
            != nix::sys::statfs::TMPFS_MAGIC
    {
        refused(file.into(), object, not_memory, "file system of type");
    }
    let huge = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    if let Ok(huge) = memfd_create("huge", huge) {
        refused(huge, object, not_memory, "MFD_HUGETLB");
    }
    let socket = UnixStream::pair().unwrap().0;
    refused(socket.into(), object, IngestReason::NOT_A_FILE, "a socket");
    let memory = sealed(&bytes);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory));
    let path_only = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
        .unwrap();
    refused(
        path_only.into(),
        object,
        IngestReason::NOT_READABLE,
        "for reading",
    );
    drop(memory);
    assert_eq!(site.objects(), 0);
    assert!(matches!(
        site.pass_memory(sealed(&bytes), object),
        Message::Published { .. }
    ));
    eventually("nothing is kept", || site.broker.active_files() == 0);
    eventually("all are closed", || descriptors() <= before);
    assert_eq!(site.objects(), 1);
    assert!(site.is_sound());
}

#[test]
fn a_child_that_inherits_the_memory_cannot_change_it() {
    let Some(site) = Site::plain() else { return };
    let bytes = tensor(MIB, 3);
    let memory = sealed(&bytes);
    let mut child = Command::new("sh")
        .args([
            "-c",
            "printf changed >&0 || truncate --size 1 /proc/self/fd/0",
        ])
        .stdin(memory.try_clone().unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(!child.wait().unwrap().success());
    let object = ObjectRef::of(&bytes);
    assert!(matches!(
        site.pass_memory(memory, object),
        Message::Published { .. }
    ));
    assert!(site.is_sound());
}

#[test]
fn a_client_that_hangs_up_leaves_nothing() {
    if !alone() {
        return;
    }
    let Some(site) = Site::plain() else { return };
    let before = descriptors();
    let bytes = tensor(9 * MIB, 3);
    for _ in 0..5 {
        let mut raw = Raw::greeted(&site.view());
        raw.pass_memory(ObjectRef::of(&bytes), &[sealed(&bytes).as_fd()]);
    }
    for count in [0, 2, 200] {
        let mut raw = Raw::greeted(&site.view());
        let memory = sealed(&bytes);
        raw.pass_memory(ObjectRef::of(&bytes), &vec![memory.as_fd(); count]);
        assert!(matches!(raw.answer(), Message::Error { .. }), "{count}");
    }
    eventually("nothing is kept", || site.broker.active_files() == 0);
    eventually("all are closed", || descriptors() <= before);
    assert!(site.is_sound());
}

#[test]
fn without_room_or_a_daemon_the_bytes_stay_private_and_the_reason_is_said() {
    let Some(mut site) = Site::new(16, IngestOptions::default(), no_room()) else {
        return;
    };
    let first = site.agent();
    let private = first.publish(
        10 << 20,
        &reader(&tensor(10 * MIB, 1)),
        &LoadOptions::default(),
    );
    let agent = site.agent();
    let second = tensor(10 * MIB, 2);
    let Err(ShareError::Private { cause, reason }) = publish(&agent, &second) else {
        panic!("no error");
    };
    assert!(
        matches!(cause, PrivateCause::Full { needed } if needed > 16 << 20),
        "{cause:?}"
    );
    assert!(reason.contains("mapped"), "{reason}");
    let derived = agent.derive(
        TensorId::of(b"source"),
        "cast",
        1,
        &LoadOptions::default(),
        || Ok::<_, ()>(second.clone()),
    );
    let derived = derived.unwrap().unwrap();
    assert_eq!(&*derived, second);
    assert!(derived.private_reason().unwrap().contains("mapped"));
    site.stop();
    let Err(ShareError::Private { cause, reason }) = publish(&agent, &second) else {
        panic!("no error");
    };
    assert_eq!(cause, PrivateCause::ReadOnly, "{reason}");
    assert!(reason.contains("no daemon"), "{reason}");
    drop(private);
    assert_eq!(site.objects(), 1);
}

#[test]
fn memory_counts_against_the_limit_of_its_store() {
    let Some(site) = Site::new(64, with_quota(4 << 20), no_room()) else {
        return;
    };
    let bytes = tensor(5 * MIB, 1);
    let refusal = site.memory_refusal(sealed(&bytes), ObjectRef::of(&bytes));
    assert_eq!(refusal.reason, IngestReason::LIMIT, "{}", refusal.text);
    // Room is asked for before anything is read, and no one gives any here.
    let bytes = tensor(MIB, 1);
    let refusal = site.memory_refusal(sealed(&bytes), ObjectRef::of(&bytes));
    assert_eq!(refusal.reason, IngestReason::NO_ROOM, "{}", refusal.text);
    assert_eq!(site.broker.counts().bytes_read, 0);
    assert_eq!(site.objects(), 0);
}
