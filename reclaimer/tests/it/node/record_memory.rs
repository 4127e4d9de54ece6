//! Memory that the contents of records take: pods write them.

use std::collections::BTreeSet;

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_store_layout::{Access, Layout, LayoutKey, MAX_OBJECTS, ObjectRef, Store, TensorId};

use crate::node::fixture::{Fixture, pass};
use crate::private_memory::private_bytes;
use tetris_test_support::alone::alone;

fn tensor(number: u32) -> TensorId {
    TensorId::of(&number.to_le_bytes())
}

/// Publishes a table without tensors.
fn publish(store: &Store, sources: BTreeSet<TensorId>, objects: Vec<ObjectRef>) -> ObjectRef {
    let table = Layout {
        sources,
        objects,
        ..Layout::default()
    };
    let published = store.publish(&table.encode(), Access::ReadOnly).unwrap();
    published.object
}

/// Records layouts by different keys that all name one table.
fn record(store: &Store, table: ObjectRef, count: u32) {
    for number in 0..count {
        let key = LayoutKey::new("pack", number).derived_key().unwrap();
        store.record_derived(&key, table).unwrap();
    }
}

#[test]
fn sources_of_layouts_take_no_memory_however_many_records_name_them() {
    if !alone() {
        return;
    }
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let table = publish(&store, (0..1 << 18).map(tensor).collect(), Vec::new());
    record(&store, table, 300);
    let before = private_bytes();
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| ()), false, now_ms());
    let status = pass(&mut reclaimer, now_ms()).status;
    let grown = private_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for 300 records");
    assert_eq!(status.stores[0].records.not_followed, 0);
}

#[test]
fn a_store_whose_records_name_too_many_objects_follows_some_and_others_all() {
    if !alone() {
        return;
    }
    let fixture = Fixture::new();
    let (store, victim) = (fixture.store("a"), fixture.store("b"));
    let object = |number: u32| ObjectRef {
        id: tetris_store_layout::ObjectId::of(&number.to_le_bytes()),
        len: 4096,
        crc: number,
    };
    let table = publish(
        &store,
        BTreeSet::new(),
        (0..MAX_OBJECTS as u32).map(object).collect(),
    );
    record(&store, table, 300);
    let before = private_bytes();
    let mut reclaimer = Reclaimer::new(fixture.config(&["a", "b"], |_| ()), false, now_ms());
    pass(&mut reclaimer, now_ms());
    drop(fixture.load("b", "bert", 1));
    let status = pass(&mut reclaimer, now_ms()).status;
    let grown = private_bytes().saturating_sub(before);
    assert!(grown < 96 << 20, "{grown} bytes");
    let not_followed = status.stores.iter().map(|store| store.records.not_followed);
    let not_followed: Vec<_> = not_followed.collect();
    assert!(
        not_followed[0] > 0 && not_followed[0] < 300,
        "{not_followed:?}"
    );
    assert_eq!(not_followed[1], 0);

    // Once most of them are gone, the others are followed.
    for entry in store.derived_records().unwrap().into_iter().skip(5) {
        store.remove_derived(entry.id).unwrap();
    }
    let status = pass(&mut reclaimer, now_ms()).status;
    assert_eq!(status.stores[0].records.not_followed, 0);
    assert_eq!(victim.manifests().unwrap().len(), 1);
}
