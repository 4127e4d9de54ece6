//! A server on the simulated device, with correct clients.

use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{ClientError, Wanted, WantedModel};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceUuid, MemoryKind};
use tetris_gpu_protocol::Reason;
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Server, ServerError};
use tetris_store_layout::{CreateOptions, Reclaimed, Store};
use tetris_wire::TakeoverError;

use crate::mirror::{DEVICE, LONG, MIB, Mirror, check, eventually, manifest, publish, refused};

#[test]
fn two_clients_of_one_model_hold_one_copy() {
    let mirror = Mirror::new(64);
    let names = ["a", "b", "c", "d", "e"];
    let objects = mirror.model(&names, 1100);
    let first = mirror.acquire(&objects).unwrap();
    check(&first, &objects, &names, 1100);
    let after_one = mirror.usage();
    let second = mirror.acquire(&objects).unwrap();
    check(&second, &objects, &names, 1100);
    assert_eq!(mirror.usage(), after_one);
    assert_eq!(after_one.created_bytes, 8 * MIB);
    let counters = mirror.server.counters();
    assert_eq!((counters.copied_objects, counters.resident), (5, 1));
    eventually("all bytes are counted", || {
        let counters = mirror.server.counters();
        counters.direct_bytes + counters.staged_bytes == 5 * 1100 * 1024
    });
    first.release().unwrap();
    check(&second, &objects, &names, 1100);
    assert_eq!(mirror.usage().held_models, 1);
    second.release().unwrap();
    let idle = mirror.usage();
    assert_eq!(
        (idle.held_models, idle.models),
        (0, 1),
        "it stays for the next"
    );
}

#[test]
fn a_family_shares_its_base() {
    let mirror = Mirror::new(64);
    let (first, second) = (
        ["base 1", "base 2", "head 1"],
        ["base 1", "base 2", "head 2"],
    );
    let (one, other) = (mirror.model(&first, 1500), mirror.model(&second, 1500));
    let a = mirror.acquire(&one).unwrap();
    check(&a, &one, &first, 1500);
    let b = mirror.acquire(&other).unwrap();
    check(&b, &other, &second, 1500);
    let usage = mirror.usage();
    assert_eq!(usage.held_bytes, 4 * 1500 * 1024);
    assert_eq!(mirror.server.counters().copied_objects, 4);
    check(&a, &one, &first, 1500);
}

#[test]
fn clients_that_come_while_a_model_is_copied_wait_for_the_same_copy() {
    let mirror = Mirror::new(64);
    let names = ["a", "b", "c", "d", "e", "f"];
    let objects = mirror.model(&names, 900);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let model = mirror.acquire(&objects).unwrap();
                check(&model, &objects, &names, 900);
                model.release().unwrap();
            });
        }
    });
    let counters = mirror.server.counters();
    assert_eq!((counters.copied_objects, counters.admitted), (6, 8));
    assert_eq!(counters.released, 8);
}

#[test]
fn several_threads_may_wait_for_one_model() {
    let mirror = Mirror::new(64);
    let names = ["a", "b", "c", "d"];
    let objects = mirror.model(&names, 900);
    let model = mirror.acquire(&objects).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&model, &objects, &names, 900));
        }
    });
    for object in &objects {
        assert!(model.is_ready(&object.id).unwrap());
    }
}

#[test]
fn objects_come_in_the_order_in_which_they_are_used() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a", "b", "c", "d"], 300);
    let wanted = Wanted {
        order: vec![2, 0],
        ..Wanted::new(WantedModel::Manifests(vec![
            manifest(&mirror.store, &objects[..1]),
            manifest(&mirror.store, &objects[1..2]),
            manifest(&mirror.store, &objects[2..3]),
            manifest(&mirror.store, &objects[3..]),
        ]))
    };
    let device = Arc::new(HostDevice::new(0));
    let model = mirror
        .connect()
        .acquire(device, &wanted, &mut |_| {})
        .unwrap();
    let order: Vec<_> = model.objects().iter().map(|object| object.id).collect();
    let expected = [2, 0, 1, 3].map(|at: usize| objects[at].id);
    assert_eq!(order, expected);
    model.wait_all(LONG).unwrap();
    let addresses = model.objects().iter().map(|object| object.address);
    assert!(addresses.is_sorted(), "copied as they lie");
}

#[test]
fn only_what_nobody_holds_is_evicted() {
    let mirror = Mirror::new(8);
    let a = mirror.model(&["a"], 4000);
    let b = mirror.model(&["b"], 4000);
    let c = mirror.model(&["c"], 4000);
    let model_a = mirror.acquire(&a).unwrap();
    check(&model_a, &a, &["a"], 4000);
    let idle = mirror.acquire(&b).unwrap();
    // A load that no one waits for is given up.
    idle.wait_all(LONG).unwrap();
    idle.release().unwrap();
    let third = mirror.acquire_within(&c, LONG).unwrap();
    check(&third, &c, &["c"], 4000);
    assert_eq!(mirror.server.counters().evicted, 1, "b");
    check(&model_a, &a, &["a"], 4000);
    let (reason, missing, _) = refused(mirror.acquire(&b));
    assert_eq!((reason, missing), (Reason::IN_USE, 4 * MIB));
    check(&model_a, &a, &["a"], 4000);
    check(&third, &c, &["c"], 4000);
}

#[test]
fn a_model_that_waits_gets_the_room_that_another_leaves() {
    let mirror = Mirror::new(8);
    let a = mirror.model(&["a", "b"], 3000);
    let b = mirror.model(&["c", "d"], 3000);
    let first = mirror.acquire(&a).unwrap();
    let mut told = Vec::new();
    let (asked, may_go) = std::sync::mpsc::channel();
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let wanted = Wanted {
                wait: LONG,
                ..Wanted::new(WantedModel::Objects(b.clone()))
            };
            let device = Arc::new(HostDevice::new(0));
            mirror.connect().acquire(device, &wanted, &mut |waiting| {
                told.push(waiting.need_bytes);
                asked.send(()).unwrap_or(());
            })
        });
        may_go.recv().unwrap();
        drop(first);
        second.join().unwrap().unwrap()
    });
    check(&second, &b, &["c", "d"], 3000);
    assert!(told[0] > 0);
    assert_eq!(mirror.server.counters().waited, 1);
}

#[test]
fn tenants_share_nothing() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a"], 1000);
    let first = mirror.acquire(&objects).unwrap();
    check(&first, &objects, &["a"], 1000);
    let root = mirror.directory.path().join("other");
    let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    let socket = mirror.directory.path().join("other-gpu");
    let serve = || {
        let store = Arc::clone(&store);
        mirror.server.serve(TenantId(1), store, None, &socket)
    };
    serve().unwrap();
    assert!(matches!(
        serve(),
        Err(ServerError::Socket(TakeoverError::InUse { .. }))
    ));
    let other = || {
        let client = tetris_gpu_client::Client::connect(&socket, MemoryKind::Host, LONG);
        let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
        let device = Arc::new(HostDevice::new(0));
        client.unwrap().acquire(device, &wanted, &mut |_| {})
    };
    assert_eq!(refused(other()).0, Reason::MISSING, "resident for one only");
    publish(&store, &["a"], 1000);
    let second = other().unwrap();
    check(&second, &objects, &["a"], 1000);
    assert_eq!(mirror.usage().created_bytes, 4 * MIB);
}

#[test]
fn a_tenant_that_is_served_no_longer_loses_its_connections_and_no_mapping() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a"], 1000);
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &["a"], 1000);
    assert!(mirror.server.leave(TenantId(0)));
    assert!(!mirror.server.leave(TenantId(0)));
    assert_eq!(
        (mirror.server.connections(), mirror.usage().held_models),
        (0, 0)
    );
    assert!(!mirror.socket.exists());
    check(&model, &objects, &["a"], 1000);
    let store = Arc::clone(&mirror.store);
    let again = mirror
        .server
        .serve(TenantId(1), store, None, &mirror.socket);
    again.unwrap();
    check(&mirror.acquire(&objects).unwrap(), &objects, &["a"], 1000);
}

#[test]
fn the_longest_times_are_times() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a"], 1000);
    let wanted = Wanted {
        wait: Duration::MAX,
        ..Wanted::new(WantedModel::Objects(objects.clone()))
    };
    let connect = tetris_gpu_client::Client::connect;
    let client = connect(&mirror.socket, MemoryKind::Host, Duration::MAX).unwrap();
    let device = Arc::new(HostDevice::new(0));
    let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
    model.wait_all(Duration::MAX).unwrap();
    check(&model, &objects, &["a"], 1000);
    model.release().unwrap();
}

#[test]
fn devices_and_status_are_told() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a"], 1000);
    let model = mirror.acquire(&objects).unwrap();
    model.wait_all(LONG).unwrap();
    let mut client = mirror.connect();
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(
        (devices[0].number, devices[0].total_bytes),
        (DEVICE.0, 64 * MIB)
    );
    assert_eq!(devices[0].free_bytes, 62 * MIB);
    let status = client.status().unwrap();
    assert_eq!(
        (status.connections, status.leases, status.waiting),
        (2, 1, 0)
    );
    assert_eq!(status.devices[0].held_bytes, 1000 * 1024);
    let mut chosen = None;
    let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
    let anywhere = client.acquire_anywhere(
        &mut |uuid: DeviceUuid| {
            chosen = Some(uuid);
            Ok(Arc::new(HostDevice::new(0)))
        },
        &wanted,
        &mut |_| {},
    );
    check(&anywhere.unwrap(), &objects, &["a"], 1000);
    assert_eq!(chosen, Some(devices[0].uuid));
}

#[test]
fn where_nobody_listens_there_is_no_server() {
    let mirror = Mirror::new(8);
    let connect = || {
        let timeout = Duration::from_secs(5);
        tetris_gpu_client::Client::connect(&mirror.socket, MemoryKind::Host, timeout)
    };
    let wrong =
        tetris_gpu_client::Client::connect(&mirror.socket, MemoryKind::CudaDescriptors, LONG);
    assert!(
        matches!(wrong, Err(ClientError::Server { .. })),
        "{wrong:?}"
    );
    assert!(connect().is_ok());
    let socket = mirror.socket.clone();
    drop(mirror.server);
    let gone = tetris_gpu_client::Client::connect(&socket, MemoryKind::Host, LONG);
    assert!(
        matches!(gone, Err(ClientError::NoServer { .. })),
        "{gone:?}"
    );
}

/// Pages that stay registered after a load reference the store's objects until they are
/// unregistered.
#[test]
fn what_is_registered_is_given_up_when_asked_when_a_tenant_leaves_and_at_the_end() {
    let mirror = Mirror::new(64);
    let names = ["a", "b", "c"];
    let objects = mirror.model(&names, 1100);
    let bytes: u64 = objects.iter().map(|object| object.len).sum();
    let load = |socket: &std::path::Path| {
        let client = tetris_gpu_client::Client::connect(socket, MemoryKind::Host, LONG);
        let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
        let device = Arc::new(HostDevice::new(0));
        let model = client.unwrap().acquire(device, &wanted, &mut |_| {});
        check(&model.unwrap(), &objects, &names, 1100);
    };
    let pinned = |server: &Server<HostDevice>| server.report().devices[0].pinned_bytes;
    let referenced = |store: &Store| {
        let mut objects = objects.iter();
        objects.any(|object| matches!(store.reclaim(object), Ok(Reclaimed::Referenced)))
    };
    load(&mirror.socket);
    let root = mirror.directory.path().join("other");
    let other = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    publish(&other, &names, 1100);
    let socket = mirror.directory.path().join("other-gpu");
    let serve = |tenant| {
        let store = Arc::clone(&other);
        mirror.server.serve(tenant, store, None, &socket).unwrap();
    };
    serve(TenantId(1));
    load(&socket);
    eventually("both models are registered", || {
        mirror.server.counters().registrations == 6
    });
    assert_eq!(pinned(&mirror.server), 2 * bytes);
    assert_eq!(mirror.server.unpin(TenantId(0)), bytes);
    assert!(!referenced(&mirror.store) && referenced(&other));
    assert_eq!(mirror.server.unpin(TenantId(0)), 0);
    mirror.server.leave(TenantId(1));
    assert_eq!(pinned(&mirror.server), 0);
    assert!(!referenced(&other));
    publish(&other, &names, 1100);
    serve(TenantId(2));
    load(&socket);
    eventually("it is registered again", || {
        mirror.server.counters().registrations == 9
    });
    assert!(referenced(&other));
    drop(mirror.server);
    assert!(!referenced(&other));
}
