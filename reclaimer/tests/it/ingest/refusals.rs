//! Refused files and their reasons.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use tetris_agent::ManifestKind;
use tetris_node::ingest::{IngestConfig, IngestOptions};
use tetris_wire::daemon::{ErrorCode, IngestReason, Message};

use crate::ingest::ground::safetensors;
use crate::ingest::harness::{Raw, Site, descriptors, eventually, no_room, open};
use tetris_test_support::alone::alone;

const WHOLE: ManifestKind = ManifestKind::File;

#[test]
fn what_is_no_regular_file_that_can_be_read_is_refused_and_closed() {
    if !alone() {
        return;
    }
    let Some(site) = Site::plain() else { return };
    let path = site.model("m", 1 << 20, 1);
    let before = descriptors();
    let fifo = site.dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let opened = |flags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
    };
    let fifo = OpenOptions::new()
        .read(true)
        .write(true)
        .open(fifo)
        .unwrap();
    let no_file = IngestReason::NOT_A_FILE;
    assert_eq!(site.refusal(open(site.dir.path()), WHOLE), no_file);
    assert_eq!(site.refusal(fifo, WHOLE), no_file);
    assert_eq!(site.refusal(UnixStream::pair().unwrap().0, WHOLE), no_file);
    assert_eq!(
        site.refusal(File::open("/dev/null").unwrap(), WHOLE),
        no_file
    );
    assert_eq!(
        site.refusal(File::open("/proc/self/status").unwrap(), WHOLE),
        no_file
    );
    let unreadable = IngestReason::NOT_READABLE;
    assert_eq!(
        site.refusal(opened(libc::O_PATH).unwrap(), WHOLE),
        unreadable
    );
    let write_only = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(site.refusal(write_only, WHOLE), unreadable);
    assert!(matches!(
        site.pass(open(&path), WHOLE),
        Message::Ingested { .. }
    ));
    eventually("all are closed", || descriptors() <= before);
}

#[test]
fn no_descriptor_and_several_are_errors_and_the_connection_goes_on() {
    if !alone() {
        return;
    }
    let Some(site) = Site::plain() else { return };
    let file = open(&site.model("m", 1 << 20, 1));
    let before = descriptors();
    let mut raw = Raw::greeted(&site.view());
    for count in [0, 2, 3, 200] {
        raw.pass(WHOLE, &vec![file.as_fd(); count]);
        let Message::Error { code, .. } = raw.answer() else {
            panic!("{count} descriptors");
        };
        assert_eq!(code, ErrorCode::MALFORMED);
    }
    // Of another length it is no such message.
    raw.send(b"\x02\0\0\0\x40\x01\x01");
    assert!(matches!(raw.answer(), Message::Error { .. }));
    raw.pass(WHOLE, &[file.as_fd()]);
    assert!(matches!(raw.answer(), Message::Ingested { .. }));
    drop(raw);
    eventually("all are closed", || descriptors() <= before);
}

#[test]
fn a_descriptor_in_the_wrong_place_is_dropped() {
    if !alone() {
        return;
    }
    let Some(site) = Site::plain() else { return };
    let file = open(&site.model("m", 1 << 20, 1));
    let before = descriptors();
    let mut raw = Raw::greeted(&site.view());
    // With the header, where none is looked for; with another kind; and as descriptors alone, which
    // a stream does not carry.
    let frame = Message::Ingest { kind: WHOLE }.encode();
    raw.send_with(&frame[..5], &[file.as_fd()]);
    raw.send(&frame[5..]);
    let Message::Error { code, text } = raw.answer() else {
        panic!("no error");
    };
    assert_eq!(code, ErrorCode::MALFORMED);
    assert!(text.contains("found 0"), "{text}");
    raw.send_with(&Message::IngestDone.encode(), &[file.as_fd(); 50]);
    assert!(matches!(raw.answer(), Message::Error { .. }));
    raw.send_with(&[], &[file.as_fd()]);
    drop(raw);
    let mut raw = Raw::greeted(&site.view());
    raw.pass(WHOLE, &[file.as_fd()]);
    assert!(matches!(raw.answer(), Message::Ingested { .. }));
    drop(raw);
    eventually("all are closed", || descriptors() <= before);
}

#[test]
fn what_is_too_large_is_refused_at_once() {
    let options = IngestOptions {
        config: IngestConfig {
            max_file_bytes: Some(100 << 20),
            max_tensors: 2,
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(32, options, no_room()) else {
        return;
    };
    let sparse = |len| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        file
    };
    for len in [1 << 40, 101 << 20, 33 << 20] {
        assert_eq!(
            site.refusal(sparse(len), WHOLE),
            IngestReason::TOO_LARGE,
            "{len}"
        );
    }
    let entry = |n| {
        let end = n + 1;
        format!(r#""{n}":{{"dtype":"U8","shape":[1],"data_offsets":[{n},{end}]}}"#)
    };
    let header = format!("{{{},{},{}}}", entry(0), entry(1), entry(2));
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.write_all(b"abc").unwrap();
    let kind = ManifestKind::Safetensors;
    assert_eq!(site.refusal(&file, kind), IngestReason::TOO_LARGE);
    assert!(matches!(site.pass(&file, WHOLE), Message::Ingested { .. }));
    assert_eq!(
        site.broker.counts().bytes_read,
        file.metadata().unwrap().len()
    );
}

#[test]
fn what_is_no_model_is_refused_and_an_anonymous_file_is_taken() {
    let Some(site) = Site::plain() else { return };
    let kind = ManifestKind::Safetensors;
    let file = || File::from(memfd_create(c"model", MFdFlags::MFD_CLOEXEC).unwrap());
    let mut garbage = file();
    garbage.write_all(&[0xff; 1000]).unwrap();
    assert_eq!(site.refusal(garbage, kind), IngestReason::INVALID);
    assert_eq!(site.refusal(file(), kind), IngestReason::INVALID);
    let mut good = file();
    good.write_all(&safetensors(1 << 20, 1)).unwrap();
    assert!(matches!(site.pass(good, kind), Message::Ingested { .. }));
}

#[test]
fn a_file_that_changes_is_refused_and_nothing_is_bound() {
    let (sender, asked) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let later = move |_, reply| sender.lock().unwrap().send(reply).unwrap();
    let options = crate::ingest::harness::with_quota(32 << 20);
    let Some(site) = Site::new(64, options, std::sync::Arc::new(later)) else {
        return;
    };
    let path = site.model("m", 1 << 20, 1);
    let mut raw = Raw::greeted(&site.view());
    raw.pass(WHOLE, &[open(&path).as_fd()]);
    // It was inspected, and is not read yet.
    let reply = asked.recv().unwrap();
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"x")
        .unwrap();
    reply(crate::ingest::harness::room(None));
    let Message::IngestRefused(refusal) = raw.answer() else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, IngestReason::CHANGED);
    let identities = std::fs::read_dir(site.store().join("identities-v1"));
    assert_eq!(identities.unwrap().count(), 0);
}
