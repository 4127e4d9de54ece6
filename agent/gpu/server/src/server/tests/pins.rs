//! Pages that stay mapped and registered between loads, tested with a worker without its thread.

use tetris_store_layout::{Reclaimed, VerifyDepth};

use super::*;
use tetris_gpu_device::HostSlice;

const KIB: usize = 7000;
/// Objects of which three can be registered, in KiB.
const SMALLER: usize = 5000;

impl Fixture {
    /// Loads a model that fills the device, and releases it, so that the next one evicts it.
    fn load(self, objects: &[ObjectRef]) -> Self {
        let client = self.admit(objects);
        let fixture = self.work();
        assert!(client.mailbox.take().complete);
        fixture.core.end(client.held.client);
        fixture.register();
        fixture
    }

    /// Registers what waits for it, as the registrar's thread does.
    fn register(&self) {
        let registrar = self.registrar();
        registrar.register_all();
        self.core.count_registrations(&registrar);
    }

    fn uses(&self) -> (u64, u64) {
        let counters = self.core.metrics.counters();
        (counters.registrations, counters.reused_registrations)
    }

    fn pinned_bytes(&self) -> u64 {
        self.registrar().used_bytes()
    }
}

#[test]
fn what_comes_back_after_an_eviction_is_registered_already() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.object(1, KIB), fixture.object(2, KIB));
    let mut fixture = fixture;
    for object in [one, other, one, other, one] {
        fixture = fixture.load(&[object]);
    }
    let counters = fixture.core.metrics.counters();
    assert_eq!((counters.evicted, counters.copied_objects), (4, 5));
    assert_eq!(fixture.uses(), (2, 3));
    assert_eq!(fixture.pinned_bytes(), one.len + other.len);
    assert_eq!(counters.direct_bytes, 3 * one.len);
    assert_eq!(counters.staged_bytes, 2 * one.len);
}

#[test]
fn least_recently_used_registrations_go_beyond_the_limit() {
    let fixture = Fixture::new();
    let objects = [1, 2, 3].map(|name| fixture.object(name, KIB));
    let mut fixture = fixture;
    for index in [0, 1, 0, 2] {
        fixture = fixture.load(&[objects[index]]);
        assert!(fixture.pinned_bytes() <= PIN_LIMIT);
    }
    // The second one was unused for the longest time.
    assert_eq!(fixture.uses(), (3, 1));
    let reclaim = |index: usize| fixture.store.reclaim(&objects[index]).unwrap();
    assert_eq!(reclaim(0), Reclaimed::Referenced);
    assert_eq!(reclaim(2), Reclaimed::Referenced);
    assert!(matches!(reclaim(1), Reclaimed::Freed { .. }));
    let fixture = fixture.load(&[objects[0]]);
    assert_eq!(fixture.uses(), (3, 2));
}

#[test]
fn what_waits_for_its_registration_is_given_up_too() {
    let fixture = Fixture::new();
    let object = fixture.object(1, KIB);
    let client = fixture.admit(&[object]);
    let fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    assert_eq!(
        fixture.store.reclaim(&object).unwrap(),
        Reclaimed::Referenced
    );
    assert_eq!(fixture.core.unpin(&fixture.pool), object.len);
    fixture.register();
    assert_eq!((fixture.uses(), fixture.pinned_bytes()), ((0, 0), 0));
    let reclaimed = fixture.store.reclaim(&object).unwrap();
    assert!(matches!(reclaimed, Reclaimed::Freed { .. }));
}

#[test]
fn what_is_given_up_can_be_reclaimed_and_comes_back_from_a_new_mapping() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.object(1, KIB), fixture.object(2, KIB));
    let fixture = fixture.load(&[one]).load(&[other]);
    assert_eq!(fixture.store.reclaim(&one).unwrap(), Reclaimed::Referenced);
    assert_eq!(fixture.core.unpin(&fixture.pool), one.len + other.len);
    assert_eq!(
        (fixture.core.unpin(&fixture.pool), fixture.pinned_bytes()),
        (0, 0)
    );
    assert_eq!(fixture.pool.alive().len(), 0);
    let reclaimed = fixture.store.reclaim(&one).unwrap();
    assert!(matches!(reclaimed, Reclaimed::Freed { .. }));
    fixture.object(1, KIB);
    let fixture = fixture.load(&[one]);
    assert_eq!(fixture.uses(), (3, 0));
}

/// Damage is found while the object is registered: the file is quarantined, and the next load
/// publishes it anew.
#[test]
fn what_was_set_aside_or_unlinked_is_not_served_from_what_is_kept() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.object(1, SMALLER), fixture.object(2, SMALLER));
    let fixture = fixture.load(&[one]).load(&[other]);
    assert!(fixture.pool.find(&one, None).is_some());
    assert!(fixture.store.quarantine(&one).unwrap());
    assert!(fixture.pool.find(&one, None).is_none());
    assert!(fixture.pool.find(&one, Some(DEVICE)).is_none());
    assert!(fixture.sources(&[one]).get(&one.id, DEVICE).is_none());
    let old = fixture.pool.alive();
    // Another file of the same name and length.
    assert_eq!(fixture.object(1, SMALLER), one);
    let fresh = fixture.sources(&[one]).get(&one.id, DEVICE).unwrap();
    let is_old = |slice: &HostSlice| {
        let mut old = old.iter();
        old.any(|mapping| mapping.as_ptr() == slice.bytes().as_ptr())
    };
    assert!(!is_old(&fresh));
    drop((fresh, old));
    let fixture = fixture.load(&[one]);
    assert_eq!(fixture.uses(), (3, 0));
    let path = fixture.store.objects_dir().join(other.file_name());
    std::fs::remove_file(path).unwrap();
    assert!(fixture.pool.find(&other, None).is_none());
    // The old file of `one` is unregistered with the others.
    assert_eq!(fixture.core.unpin(&fixture.pool), 2 * one.len + other.len);
    assert_eq!(fixture.pool.alive().len(), 0);
    let verified = fixture.store.verify(&one, VerifyDepth::Full);
    assert!(verified.is_ok());
}

/// The driver registers no page twice in a process.
#[test]
fn devices_have_mappings_of_their_own() {
    let fixture = Fixture::new();
    let object = fixture.object(1, 100);
    let second = DeviceId(DEVICE.0 + 1);
    let model = fixture.sources(&[object]);
    let model_mapping = model.get(&object.id, DEVICE).unwrap();
    let again = model.get(&object.id, DEVICE).unwrap();
    assert_eq!(model_mapping.bytes().as_ptr(), again.bytes().as_ptr());
    let model = fixture.sources(&[object]);
    let parts = [Part {
        object: object.id,
        len: object.len,
    }];
    model.map_all(&parts).unwrap();
    let other = model.get(&object.id, second).unwrap();
    assert_ne!(model_mapping.bytes().as_ptr(), other.bytes().as_ptr());
    let model = fixture.sources(&[object]);
    model.map_all(&parts).unwrap();
    let again = model.get(&object.id, DEVICE).unwrap();
    assert_eq!(model_mapping.bytes().as_ptr(), again.bytes().as_ptr());
}

#[test]
fn a_load_for_a_tenant_that_has_left_keeps_nothing() {
    let fixture = Fixture::new();
    let object = fixture.object(1, KIB);
    let client = fixture.admit(&[object]);
    fixture.pool.close();
    let fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    fixture.register();
    assert_eq!((fixture.uses(), fixture.pinned_bytes()), ((0, 0), 0));
    let reclaimed = fixture.store.reclaim(&object).unwrap();
    assert!(matches!(reclaimed, Reclaimed::Freed { .. }));
}

#[test]
fn objects_are_opened_for_writing_only_for_devices_that_need_it() {
    let fixture = Fixture::new();
    let object = fixture.object(1, 8);
    let other = DeviceId(DEVICE.0 + 1);
    let access = |pool: &Pool, on| pool.map(&object, on).unwrap().access();
    assert_eq!(access(&fixture.pool, None), Access::ReadOnly);
    assert_eq!(access(&fixture.pool, Some(DEVICE)), Access::ReadOnly);
    let pool = Pool::new(
        TENANT,
        Arc::clone(&fixture.store),
        BTreeSet::from([DEVICE]),
        &Arc::new(object_limit::ObjectLimit::new(16)),
    );
    // Read-only as well if this user cannot open objects for writing.
    let opened = fixture.store.map(&object, Access::Registrable);
    let opened = opened.unwrap().unwrap().access();
    assert_eq!(access(&pool, None), opened);
    assert_eq!(access(&pool, Some(DEVICE)), opened);
    assert_eq!(access(&pool, Some(other)), Access::ReadOnly);
}
