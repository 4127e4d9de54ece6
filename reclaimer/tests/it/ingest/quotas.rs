//! Stores with a limit.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use tetris_agent::{ManifestKind, Recognized};
use tetris_node::ingest::{AskRoom, IngestConfig, IngestOptions};
use tetris_node::room::{RoomNeed, RoomRefusal, RoomResult};
use tetris_wire::daemon::{IngestReason, Message};

use crate::ingest::ground::{of_tensors, tensor};
use crate::ingest::harness::{Raw, Site, eventually, limited, open, room, with_quota};

const MIB: usize = 1 << 20;
const PAGE: u64 = 4096;
/// Pages of a file's records.
const RECORDS: u64 = 2 * PAGE;
const KIND: ManifestKind = ManifestKind::Safetensors;

/// Requested bytes of a file: its length, its records, and the last page of each object that its
/// header can tell of.
fn requested(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    bytes.len() as u64 + RECORDS + (header / 48 + 1) * PAGE
}

/// A daemon that has room for so many bytes, and what it is asked for.
fn room_for(bytes: &Arc<AtomicU64>) -> (Arc<AskRoom>, Receiver<u64>) {
    let (sender, asked) = channel();
    let (sender, bytes) = (Mutex::new(sender), Arc::clone(bytes));
    let answer = move |need: RoomNeed, reply: Box<dyn FnOnce(RoomResult) + Send>| {
        sender.lock().unwrap().send(need.bytes).unwrap();
        let refused = need.bytes > bytes.load(Ordering::Relaxed);
        reply(room(refused.then_some(RoomRefusal::InUse)));
    };
    (Arc::new(answer), asked)
}

fn refusal(message: Message) -> IngestReason {
    match message {
        Message::IngestRefused(refusal) => refusal.reason,
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn what_two_clients_are_about_to_write_adds_up() {
    let (sender, asks) = channel();
    let sender = Mutex::new(sender);
    let later = move |need: RoomNeed, reply| {
        sender.lock().unwrap().send((need.bytes, reply)).unwrap();
    };
    let mut options = with_quota(64 << 20);
    options.config = IngestConfig {
        per_user: 2,
        ..IngestConfig::default()
    };
    let Some(site) = Site::new(64, options, Arc::new(later)) else {
        return;
    };
    let begin = |name: &str, seed| {
        let path = site.model(name, MIB, seed);
        let mut raw = Raw::greeted(&site.view());
        raw.pass(KIND, &[open(&path).as_fd()]);
        (raw, requested(&path))
    };
    let (mut one, len) = begin("1", 1);
    let (asked, answer_one) = asks.recv().unwrap();
    assert_eq!(asked, len);
    // Through another connection, as from another pod.
    let (mut two, other_len) = begin("2", 2);
    let (asked, answer_two) = asks.recv().unwrap();
    assert_eq!(asked, len + other_len);
    answer_one(room(None));
    answer_two(room(None));
    for raw in [&mut one, &mut two] {
        assert!(matches!(raw.answer(), Message::Ingested { .. }));
    }
    // What is published is in the store's catalog, and is not counted again while clients hold it.
    let (mut three, len) = begin("3", 3);
    let (asked, answer) = asks.recv().unwrap();
    assert_eq!(asked, len);
    answer(room(None));
    assert!(matches!(three.answer(), Message::Ingested { .. }));
}

#[test]
fn stores_of_namespaces_have_the_limit_of_stores_without_a_policy() {
    let options = IngestOptions {
        policy: limited(2 << 20),
        ..IngestOptions::default()
    };
    let (room, asked) = room_for(&Arc::new(u64::MAX.into()));
    let Some(site) = Site::new(64, options, room) else {
        return;
    };
    let large = open(&site.model("large", 3 * MIB, 1));
    assert_eq!(site.refusal(large, KIND), IngestReason::LIMIT);
    let small = open(&site.model("small", MIB, 1));
    assert!(matches!(site.pass(small, KIND), Message::Ingested { .. }));
    assert_eq!(asked.try_iter().count(), 1);
}

#[test]
fn of_a_file_that_shares_tensors_only_what_is_missing_needs_room() {
    let left = Arc::new(AtomicU64::new(12 << 20));
    let (room, asked) = room_for(&left);
    let Some(site) = Site::new(64, with_quota(32 << 20), room) else {
        return;
    };
    let file = |name: &str, own: u8| {
        let tensors = [("base", tensor(10 * MIB, 1)), ("own", tensor(MIB, own))];
        site.file(name, &of_tensors(&tensors))
    };
    drop(site.agent().load(file("first", 2)).unwrap());
    eventually("the daemon lets go", || site.broker.active_files() == 0);
    asked.try_iter().for_each(drop);
    let path = file("second", 3);
    left.store(2 << 20, Ordering::Relaxed);
    let mut raw = Raw::greeted(&site.view());
    raw.pass(KIND, &[open(&path).as_fd()]);
    let mut told = Vec::new();
    let ended = loop {
        match raw.receive() {
            Message::IngestProgress { done, .. } => told.push(done),
            Message::IngestWaiting { .. } => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Message::Ingested { .. }), "{ended:?}");
    assert!(told.is_sorted(), "it never goes back: {told:?}");
    let size = requested(&path);
    // The manifest and an identity take a page each.
    let missing = MIB as u64 + RECORDS;
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), [size, missing]);
    drop(raw);
    // Nothing but a record is missing of a copy.
    let copy = site.dir.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    let model = site.agent().load(copy).unwrap();
    assert_eq!(model.report().recognized, [Recognized::Brokered]);
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), [size, RECORDS]);
    assert_eq!(site.objects(), 3);
}

#[test]
fn a_file_that_shares_nothing_is_refused_and_nothing_of_it_is_published() {
    let (room, asked) = room_for(&Arc::new((MIB as u64).into()));
    let Some(site) = Site::new(64, with_quota(32 << 20), room) else {
        return;
    };
    let mut raw = Raw::greeted(&site.view());
    let file = open(&site.model("m", 4 * MIB, 1));
    raw.pass(KIND, &[file.as_fd()]);
    assert_eq!(refusal(raw.answer()), IngestReason::NO_ROOM);
    assert_eq!(site.objects(), 0);
    assert!(asked.try_iter().count() >= 1);
}
