//! Shares of a store's limits for records.

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_store_layout::{
    Access, DerivedKey, FIRST_POD_DOMAIN, LayoutKey, Mapping, Store, TensorId, TrustDomain,
};

use crate::node::fixture::{Fixture, HOUR_MS, pass, set_used};

/// The pods of one service account.
fn account(number: u32) -> TrustDomain {
    TrustDomain::Pods(FIRST_POD_DOMAIN + number)
}

/// Records tensors that pods of an account derived, and layouts whose tables are none. Returns what they map.
fn derive(store: &Store, account: TrustDomain, count: u32) -> Vec<Mapping> {
    let derived = (0..count).map(|number| {
        let bytes = [account.code().1, number].map(u32::to_le_bytes).concat();
        let published = store.publish(&bytes, Access::ReadOnly).unwrap();
        let key = if number % 2 == 0 {
            DerivedKey::new(TensorId::of(&bytes), "cast", 1).unwrap()
        } else {
            LayoutKey::new("pack", number).derived_key().unwrap()
        };
        let key = key.in_domain(account);
        store.record_derived(&key, published.object).unwrap();
        published.mapping
    });
    derived.collect()
}

fn records_of(store: &Store, account: TrustDomain) -> usize {
    let records = store.derived_records().unwrap().into_iter();
    let domains = records.map(|entry| store.derived_record(entry.id).unwrap().unwrap().key);
    domains.filter(|key| key.domain() == account).count()
}

#[test]
fn an_account_with_many_records_evicts_none_of_another() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let (victim, hostile) = (account(1), account(2));
    drop(derive(&store, victim, 10));
    // Used long ago, and by no one now: the first to go by age.
    for entry in std::fs::read_dir(fixture.path("a/derived-v1")).unwrap() {
        set_used(&entry.unwrap().path(), now_ms() - HOUR_MS);
    }
    // It maps all that its records name.
    let _held = derive(&store, hostile, 200);
    let config = fixture.config(&["a"], |file| file.policy.store.record_files = 64);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    pass(&mut reclaimer, now_ms());
    assert_eq!(records_of(&store, victim), 10);
    let left = records_of(&store, hostile);
    assert!((46..=54).contains(&left), "{left}");
}
