//! Layouts of clients that can only read the store, and their turns.

use std::cell::Cell;
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::time::Duration;

use tetris_agent::daemon::DaemonClient;
use tetris_agent::{
    Agent, Dtype, LayoutKey, LayoutParts, LoadOptions, Origin, PlacedTensor, TensorId,
};
use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{BuildRequest, IngestReason, IngestRefusal, Message};

use crate::ingest::ground::tensor;
use crate::ingest::harness::{Raw, Site, eventually};

const LEN: usize = 1 << 20;

fn key() -> LayoutKey {
    LayoutKey::new("pack", 1).with_source("weight", TensorId::of(b"source"))
}

/// Asks for the layout; returns its origin, and true if it was built here.
fn ask(agent: &Agent) -> (Origin, bool) {
    let built = Cell::new(false);
    let options = LoadOptions::default();
    let build = || {
        built.set(true);
        let bytes = tensor(LEN, 3);
        let read_at = |at: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
        };
        let region = agent.publish(LEN as u64, &read_at, &options).unwrap();
        let weight = PlacedTensor {
            name: "weight".to_owned(),
            dtype: Dtype::U8,
            shape: vec![LEN as u64],
            strides: vec![1],
            region: Some(region),
            offset: 0,
            alias: None,
        };
        Ok::<_, Infallible>(LayoutParts {
            tensors: vec![weight],
            ..LayoutParts::default()
        })
    };
    let Ok(layout) = agent.layout(&key(), &options, build).unwrap();
    assert_eq!(layout.private_reason(), None);
    (layout.origin(), built.get())
}

#[test]
fn one_client_builds_and_the_others_attach() {
    let Some(site) = Site::plain() else { return };
    assert_eq!(ask(&site.agent()), (Origin::New, true));
    assert_eq!(ask(&site.agent()), (Origin::Shared, false));
    assert_eq!(site.objects(), 2, "the tensor and the table");
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

#[test]
fn one_client_at_a_time_has_the_turn_until_it_hangs_up() {
    let Some(site) = Site::plain() else { return };
    let daemon = DaemonClient::new(site.view().join("daemon"), Duration::from_secs(10));
    let turn = |key: &LayoutKey| {
        let key = key.derived_key().unwrap().in_domain(TrustDomain::User(0));
        let header = std::fs::File::open(site.view().join("store")).unwrap();
        daemon.take_turn(header, &key).unwrap()
    };
    let first = turn(&key());
    assert!(first.is_some() && turn(&key()).is_none());
    assert!(turn(&LayoutKey::new("other", 1)).is_some());
    drop(first);
    eventually("the turn is free", || turn(&key()).is_some());
}

#[test]
fn others_wait_for_the_client_that_builds_and_take_up_no_connection() {
    let Some(site) = Site::plain() else { return };
    let daemon = DaemonClient::new(site.view().join("daemon"), Duration::from_secs(10));
    let derived = key().derived_key().unwrap().in_domain(TrustDomain::User(0));
    let header = || std::fs::File::open(site.view().join("store")).unwrap();
    let turn = || daemon.take_turn(header(), &derived).unwrap();
    let first = turn();
    assert!(first.is_some());
    // More than a user has connections.
    let asked: Vec<_> = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..24)
            .map(|_| scope.spawn(|| ask(&site.agent())))
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        assert!(waiting.iter().all(|entry| !entry.is_finished()));
        drop(first);
        waiting
            .into_iter()
            .map(|waiting| waiting.join().unwrap())
            .collect()
    });
    let built = asked.iter().filter(|(_, built)| *built).count();
    assert_eq!(built, 1, "{asked:?}");
    // One that never gets its turn builds without.
    let other = LayoutKey::new("other", 1);
    let hung = other.derived_key().unwrap().in_domain(TrustDomain::User(0));
    let _hung = daemon.take_turn(header(), &hung).unwrap();
    let options = LoadOptions::default().with_wait(Duration::from_millis(100));
    let build = || Ok::<_, Infallible>(LayoutParts::default());
    let Ok(layout) = site.agent().layout(&other, &options, build).unwrap();
    assert_eq!(layout.origin(), Origin::New);
}

#[test]
fn a_turn_without_a_domain_is_refused() {
    let Some(site) = Site::plain() else { return };
    let request = BuildRequest::of(&key().derived_key().unwrap());
    let mut raw = Raw::greeted(&site.view());
    raw.send(&Message::TakeTurn(request.clone()).encode());
    let Message::IngestRefused(IngestRefusal { reason, .. }) = raw.answer() else {
        panic!("no refusal");
    };
    assert_eq!(reason, IngestReason::NO_DOMAIN);
    let ask = Message::AskDomain.encode();
    let header = std::fs::File::open(site.view().join("store")).unwrap();
    raw.send(&ask[..5]);
    raw.send_with(&ask[5..], &[header.as_fd()]);
    assert!(matches!(raw.answer(), Message::Domain(Some(_))));
    raw.send(&Message::TakeTurn(request).encode());
    assert_eq!(raw.answer(), Message::TurnTaken);
}
