//! The rules B1 to B8 one by one.

use tetris_store_layout::ObjectId;

use crate::arena::ChunkId;
use crate::residency::*;

const MIB: u64 = 1 << 20;
const TENANT: TenantId = TenantId(0);

fn model(parts: &[(&str, u64)]) -> ModelSpec {
    let part = |(name, mib): &(&str, u64)| Part {
        object: ObjectId::of(name.as_bytes()),
        len: mib * MIB,
    };
    let parts: Vec<_> = parts.iter().map(part).collect();
    ModelSpec::try_new(&parts, &[]).unwrap()
}

fn manager(devices: &[u64]) -> Manager {
    let mut manager = Manager::new(Config::default());
    for (id, mib) in (0..).zip(devices) {
        manager.set_capacity(DeviceId(id), mib * MIB);
    }
    manager
}

/// Admits a model to a client and completes all copies.
fn load(manager: &mut Manager, client: u64, spec: &ModelSpec, now: u64) -> Admission {
    let admission = manager
        .admit(TENANT, ClientId(client), spec, None, now)
        .unwrap();
    for copy in &admission.copies {
        assert!(
            manager
                .copied(admission.device, TENANT, &copy.object)
                .is_some()
        );
    }
    admission
}

fn release(manager: &mut Manager, client: u64, spec: &ModelSpec, now: u64) {
    manager
        .release(DeviceId(0), TENANT, ClientId(client), spec.key(), now)
        .unwrap();
}

#[test]
fn a_second_client_copies_nothing() {
    let mut manager = manager(&[1024]);
    let spec = model(&[("a", 300), ("b", 100)]);
    assert_eq!(load(&mut manager, 1, &spec, 1).copies.len(), 2);
    let second = load(&mut manager, 2, &spec, 2);
    assert_eq!((second.copies.len(), second.created.len()), (0, 0));
}

#[test]
fn models_of_a_family_share_what_they_have_in_common() {
    let mut manager = manager(&[1024]);
    load(&mut manager, 1, &model(&[("base", 600), ("head 1", 2)]), 1);
    let second = load(&mut manager, 2, &model(&[("base", 600), ("head 2", 2)]), 2);
    assert_eq!(second.copies.len(), 1);
    assert_eq!(manager.usage(DeviceId(0)).unwrap().created_bytes, 604 * MIB);
}

#[test]
fn who_comes_while_a_model_is_copied_waits_for_it() {
    let mut manager = manager(&[1024]);
    let spec = model(&[("a", 300)]);
    manager.admit(TENANT, ClientId(1), &spec, None, 1).unwrap();
    let object = ObjectId::of(b"a");
    let second = manager.admit(TENANT, ClientId(2), &spec, None, 2).unwrap();
    assert_eq!(
        (second.copies.as_slice(), second.awaited.as_slice()),
        (&[][..], &[object][..])
    );
    assert_eq!(manager.ready_place(DeviceId(0), TENANT, &object), None);
    assert!(manager.copied(DeviceId(0), TENANT, &object).is_some());
    assert!(manager.ready_place(DeviceId(0), TENANT, &object).is_some());
}

#[test]
fn what_is_being_copied_stays_when_its_client_is_killed() {
    let mut manager = manager(&[400]);
    manager
        .admit(TENANT, ClientId(1), &model(&[("a", 300)]), None, 1)
        .unwrap();
    assert_eq!(manager.disconnect(ClientId(1), 2), []);
    let refusal = manager
        .admit(TENANT, ClientId(2), &model(&[("b", 300)]), None, 3)
        .unwrap_err();
    assert!(refusal.may_wait(), "{refusal}");
    assert!(
        manager
            .copied(DeviceId(0), TENANT, &ObjectId::of(b"a"))
            .is_some()
    );
    let admission = manager
        .admit(TENANT, ClientId(2), &model(&[("b", 300)]), None, 4)
        .unwrap();
    assert_eq!(admission.freed.evicted.len(), 1);
}

#[test]
fn light_models_leave_first_then_the_least_recently_used() {
    let mut manager = manager(&[3000]);
    let heavy = [model(&[("h0", 700)]), model(&[("h1", 700)])];
    let light = [model(&[("l0", 500)]), model(&[("l1", 500)])];
    for (client, spec) in (0..).zip(heavy.iter().chain(&light)) {
        load(&mut manager, client, spec, client);
        release(&mut manager, client, spec, 10 + client);
    }
    let order = |admission: Admission| {
        let evicted = admission.freed.evicted.into_iter();
        evicted.map(|victim| victim.model).collect::<Vec<_>>()
    };
    // The light models leave first although the heavy ones were used less recently.
    let first = load(&mut manager, 9, &model(&[("x", 1500)]), 20);
    assert_eq!(order(first), [light[0].key(), light[1].key()]);
    let second = load(&mut manager, 9, &model(&[("y", 800)]), 21);
    assert_eq!(order(second), [heavy[0].key()]);
}

#[test]
fn what_is_referenced_is_never_evicted() {
    let mut manager = manager(&[1000]);
    load(&mut manager, 1, &model(&[("a", 600)]), 1);
    let refusal = manager
        .admit(TENANT, ClientId(2), &model(&[("b", 600)]), None, 2)
        .unwrap_err();
    assert_eq!(
        refusal,
        Refusal::InUse {
            need_bytes: 600 * MIB,
            free_bytes: 400 * MIB,
            held_bytes: 600 * MIB
        }
    );
    manager.disconnect(ClientId(1), 3);
    assert!(
        manager
            .admit(TENANT, ClientId(2), &model(&[("b", 600)]), None, 4)
            .is_ok()
    );
}

#[test]
fn a_model_that_fits_no_device_is_refused_for_good() {
    let mut manager = manager(&[1000, 500]);
    let refusal = manager
        .admit(TENANT, ClientId(1), &model(&[("a", 1001)]), None, 1)
        .unwrap_err();
    let (need_bytes, capacity_bytes) = (1002 * MIB, 1000 * MIB);
    assert_eq!(
        refusal,
        Refusal::TooLarge {
            need_bytes,
            capacity_bytes
        }
    );
    assert!(!refusal.may_wait());
    let nowhere = manager.admit(
        TENANT,
        ClientId(1),
        &model(&[("a", 1)]),
        Some(DeviceId(7)),
        1,
    );
    assert_eq!(
        nowhere.unwrap_err(),
        Refusal::NoDevice {
            found: Some(DeviceId(7))
        }
    );
}

#[test]
fn a_tenant_stays_within_its_quota_and_evicts_its_own() {
    let mut manager = manager(&[2000]);
    manager.set_quota(TENANT, 700 * MIB);
    let other = TenantId(1);
    let theirs = model(&[("a", 400)]);
    let admission = manager.admit(other, ClientId(5), &theirs, None, 0).unwrap();
    manager.copied(admission.device, other, &ObjectId::of(b"a"));
    manager.disconnect(ClientId(5), 1);
    // The same object id is a separate copy for another tenant (B3).
    let first = load(&mut manager, 1, &theirs, 2);
    assert_eq!(first.copies.len(), 1);
    let refusal = manager
        .admit(TENANT, ClientId(2), &model(&[("b", 400)]), None, 3)
        .unwrap_err();
    assert!(
        matches!(refusal, Refusal::Quota { .. }) && refusal.may_wait(),
        "{refusal}"
    );
    manager.disconnect(ClientId(1), 4);
    let admission = load(&mut manager, 2, &model(&[("b", 400)]), 5);
    assert_eq!(
        admission.freed.evicted,
        [Evicted {
            tenant: TENANT,
            model: theirs.key()
        }]
    );
    let never = manager
        .admit(TENANT, ClientId(3), &model(&[("c", 701)]), None, 6)
        .unwrap_err();
    assert!(
        matches!(never, Refusal::Quota { .. }) && !never.may_wait(),
        "{never}"
    );
}

#[test]
fn a_model_goes_where_most_of_it_is_and_then_where_most_is_free() {
    let mut manager = manager(&[1000, 2000]);
    assert_eq!(
        load(&mut manager, 1, &model(&[("a", 500)]), 1).device,
        DeviceId(1)
    );
    assert_eq!(
        load(&mut manager, 2, &model(&[("a", 500), ("b", 10)]), 2).device,
        DeviceId(1)
    );
    // Device 1 has most of the model but no room without eviction; device 0 has room.
    load(&mut manager, 3, &model(&[("big", 1400)]), 3);
    assert_eq!(
        load(&mut manager, 4, &model(&[("a", 500), ("c", 200)]), 4).device,
        DeviceId(0)
    );
}

#[test]
fn a_failed_copy_takes_the_model_from_all_who_wait_for_it() {
    let mut manager = manager(&[1000]);
    let spec = model(&[("a", 300), ("b", 300)]);
    manager.admit(TENANT, ClientId(1), &spec, None, 1).unwrap();
    manager.admit(TENANT, ClientId(2), &spec, None, 2).unwrap();
    let ids = [ObjectId::of(b"a"), ObjectId::of(b"b")];
    let failed = manager.failed(DeviceId(0), TENANT, &ids, 3);
    assert_eq!(
        failed.clients,
        [(ClientId(1), spec.key()), (ClientId(2), spec.key())]
    );
    let usage = manager.usage(DeviceId(0)).unwrap();
    assert_eq!((usage.created_bytes, usage.models), (0, 0));
    assert_eq!(
        manager.release(DeviceId(0), TENANT, ClientId(1), spec.key(), 4),
        None
    );
}

#[test]
fn a_device_that_is_gone_takes_its_holders_along() {
    let mut manager = manager(&[1000]);
    let spec = model(&[("a", 300)]);
    load(&mut manager, 1, &spec, 1);
    assert_eq!(
        manager.remove_device(DeviceId(0)),
        [(ClientId(1), spec.key())]
    );
    assert_eq!(manager.usage(DeviceId(0)), None);
}

#[test]
fn memory_that_lingers_counts_for_the_device_and_for_its_tenant() {
    let mut manager = manager(&[400]);
    let (device, other, chunk) = (DeviceId(0), TenantId(1), ChunkId(7));
    manager.linger(device, TENANT, chunk, 200 * MIB);
    let usage = manager.usage(device).unwrap();
    assert_eq!(
        (usage.lingering_bytes, usage.created_bytes),
        (200 * MIB, 200 * MIB)
    );
    let wanted = model(&[("b", 300)]);
    let refusal = manager
        .admit(other, ClientId(2), &wanted, None, 3)
        .unwrap_err();
    assert!(refusal.may_wait(), "{refusal}");
    manager.set_quota(TENANT, 250 * MIB);
    let refusal = manager
        .admit(TENANT, ClientId(1), &model(&[("a", 100)]), None, 3)
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Quota { .. }), "{refusal}");
    assert_eq!(manager.excess_bytes(device, TENANT), 0);
    manager.linger_no_longer(device, TENANT, chunk);
    assert!(manager.admit(other, ClientId(2), &wanted, None, 7).is_ok());
    // It was counted on, and then found not to be free.
    manager.linger(device, TENANT, chunk, 200 * MIB);
    assert_eq!(manager.excess_bytes(device, other), 100 * MIB);
}

#[test]
fn a_damaged_object_takes_its_models_from_their_clients() {
    let mut manager = manager(&[400]);
    let (base, own) = (ObjectId::of(b"base"), ObjectId::of(b"own"));
    let (one, other) = (model(&[("base", 50), ("own", 10)]), model(&[("base", 50)]));
    load(&mut manager, 1, &one, 1);
    load(&mut manager, 2, &other, 2);
    let failed = manager.damaged(DeviceId(0), TENANT, own, 3);
    assert_eq!(failed.clients, [(ClientId(1), one.key())]);
    assert!(manager.ready_place(DeviceId(0), TENANT, &own).is_none());
    assert!(manager.ready_place(DeviceId(0), TENANT, &base).is_some());
    assert_eq!(load(&mut manager, 3, &one, 4).copies.len(), 1);
    let failed = manager.damaged(DeviceId(0), TENANT, base, 5);
    assert_eq!(failed.clients.len(), 2);
}
