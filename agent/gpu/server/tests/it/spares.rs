//! Chunks that exist ahead of need, on the simulated device.

use std::path::PathBuf;
use std::sync::Arc;

use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_device::{DeviceMemory, MemoryKind};
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, ServerConfig};
use tetris_store_layout::{CreateOptions, ObjectRef, Store};

use crate::mirror::{DEVICE, LONG, MIB, Mirror, check, config, eventually, free_bytes, publish};

fn mirror(capacity_mib: u64, spare_mib: u64) -> Mirror {
    let config = ServerConfig {
        spare_bytes: spare_mib * MIB,
        ..config(Limits::default())
    };
    Mirror::configured(capacity_mib, &config, None)
}

fn spare_bytes(mirror: &Mirror) -> u64 {
    mirror.server.report().devices[0].spare_bytes
}

fn no_more(mirror: &Mirror) {
    mirror.faults(Faults {
        creates: 0,
        ..Faults::default()
    });
}

/// Holds a model without mapping it, until it is there.
fn prefetch(mirror: &Mirror, objects: &[ObjectRef]) -> tetris_gpu_client::Prefetched {
    let wanted = Wanted::new(WantedModel::Objects(objects.to_vec()));
    let prefetched = mirror
        .connect()
        .prefetch(None, &wanted, &mut |_| {})
        .unwrap();
    assert!(prefetched.wait(LONG).unwrap());
    prefetched
}

/// A store for another tenant, and the path of its socket.
fn another_store(mirror: &Mirror) -> (Arc<Store>, PathBuf) {
    let directory = mirror.directory.path();
    let store = Store::create(directory.join("other"), &CreateOptions::default()).unwrap();
    (Arc::new(store), directory.join("other-gpu"))
}

#[test]
fn a_device_whose_memory_is_all_taken_at_the_start_creates_nothing_later() {
    let mirror = mirror(16, 16);
    assert_eq!(
        (spare_bytes(&mirror), free_bytes(&mirror.device)),
        (16 * MIB, 0)
    );
    no_more(&mirror);
    let names: Vec<_> = (0..24).map(|at| format!("object {at}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let models: Vec<_> = names
        .chunks(6)
        .map(|names| (names, mirror.model(names, 1024)))
        .collect();
    for _ in 0..3 {
        for (names, objects) in &models {
            let model = mirror.acquire_within(objects, LONG).unwrap();
            check(&model, objects, names, 1024);
        }
    }
    let counters = mirror.server.counters();
    assert_eq!((counters.chunks_created, counters.awaited_chunks), (4, 0));
    assert_eq!(counters.failed_transfers, 0);
    assert!(counters.evicted > 0);
}

#[test]
fn spares_are_made_anew_aside() {
    let mirror = mirror(16, 8);
    assert_eq!(spare_bytes(&mirror), 8 * MIB);
    let prefetched = prefetch(&mirror, &mirror.model(&["a", "b", "c", "d"], 1024));
    eventually("there are as many spares as before", || {
        spare_bytes(&mirror) == 8 * MIB
    });
    let counters = mirror.server.counters();
    assert_eq!((counters.chunks_created, counters.spares_used), (3, 1));
    assert_eq!(counters.awaited_chunks, 0);
    drop(prefetched);
}

/// The device is full of spares and another program's memory when an object comes that is longer
/// than a spare.
#[test]
fn spares_go_before_anything_else() {
    let mirror = mirror(16, 12);
    let other = mirror.device.create(4 * MIB).unwrap();
    let idle = prefetch(&mirror, &mirror.model(&["idle"], 1024));
    idle.hang_up();
    eventually("nothing is held", || mirror.usage().held_bytes == 0);
    let model = mirror.model(&["long"], 6 << 10);
    let prefetched = prefetch(&mirror, &model);
    let counters = mirror.server.counters();
    assert_eq!((counters.awaited_chunks, counters.evicted), (1, 0));
    drop((prefetched, other));
}

#[test]
fn without_spares_each_chunk_is_created_while_its_client_waits() {
    let mirror = mirror(16, 0);
    let prefetched = prefetch(&mirror, &mirror.model(&["a", "b", "c", "d", "e"], 1024));
    let counters = mirror.server.counters();
    assert_eq!((counters.chunks_created, counters.awaited_chunks), (2, 2));
    assert_eq!((spare_bytes(&mirror), counters.spares_used), (0, 0));
    drop(prefetched);
}

/// Chunks that no client had go from tenant to tenant, and are zero then.
#[test]
fn chunks_that_no_client_had_are_for_all() {
    let mirror = mirror(8, 8);
    let (other, socket) = another_store(&mirror);
    mirror
        .server
        .serve(TenantId(1), Arc::clone(&other), None, &socket)
        .unwrap();
    no_more(&mirror);
    let first = mirror.model(&["a", "b", "c", "d", "e", "f"], 1024);
    for _ in 0..3 {
        prefetch(&mirror, &first).hang_up();
        eventually("nothing is held", || mirror.usage().held_bytes == 0);
        let client = Client::connect(&socket, MemoryKind::Host, LONG).unwrap();
        let objects = publish(&other, &["x", "y", "z", "u", "v"], 1024);
        let wanted = Wanted::new(WantedModel::Objects(objects));
        let prefetched = client.prefetch(None, &wanted, &mut |_| {}).unwrap();
        assert!(prefetched.wait(LONG).unwrap());
        prefetched.hang_up();
        eventually("nothing is held", || mirror.usage().held_bytes == 0);
    }
    let counters = mirror.server.counters();
    assert_eq!((counters.awaited_chunks, counters.failed_transfers), (0, 0));
}

/// A chunk that clients had does not go to another tenant, and one that goes there is zero.
#[test]
fn another_tenant_sees_no_bytes_of_the_first() {
    let mirror = mirror(8, 8);
    let (other, socket) = another_store(&mirror);
    let tenant = TenantId(1);
    mirror
        .server
        .serve(tenant, Arc::clone(&other), None, &socket)
        .unwrap();
    let first = mirror.model(&["a", "b", "c", "d"], 1024);
    let second = publish(&other, &["x"], 1024);
    let seen = |names: &[&str]| {
        // Both chunks are taken: the one of the first tenant is given up for the second's model.
        let client = Client::connect(&socket, MemoryKind::Host, LONG).unwrap();
        let wanted = Wanted::new(WantedModel::Objects(publish(&other, names, 1024)));
        client
            .acquire(Arc::new(HostDevice::new(0)), &wanted, &mut |_| {})
            .unwrap()
    };
    for is_mapped in [false, true] {
        if is_mapped {
            let model = mirror.acquire_within(&first, LONG).unwrap();
            check(&model, &first, &["a", "b", "c", "d"], 1024);
            model.release().unwrap();
        } else {
            prefetch(&mirror, &first).hang_up();
        }
        eventually("nothing is held", || mirror.usage().held_bytes == 0);
        let model = seen(&["x", "y", "z", "u", "v"]);
        model.wait_all(LONG).unwrap();
        // The second chunk has one object; the rest of it is as the tenant got it.
        let (mapping, _) = model.mapping(&model.objects()[4].id).unwrap();
        let mut rest = vec![1; 3 * MIB as usize];
        let device = HostDevice::new(0);
        device.read_back(mapping, MIB, &mut rest).unwrap();
        assert!(
            rest.iter().all(|byte| *byte == 0),
            "mapped before: {is_mapped}"
        );
        model.release().unwrap();
        eventually("nothing is held", || mirror.usage().held_bytes == 0);
    }
    assert_eq!(second.len(), 1);
    assert!(mirror.server.leave(tenant));
    eventually("its chunks are no spares", || {
        let usage = mirror.server.usage(DEVICE).unwrap();
        usage.created_bytes + spare_bytes(&mirror) <= 8 * MIB
    });
}
