//! Models held without being mapped, and the state of a device.

use std::collections::BTreeMap;
use std::time::Duration;

use tetris_gpu_client::{ClientError, DeviceState, Prefetched, Wanted, WantedModel};
use tetris_gpu_device::host::Faults;
use tetris_gpu_device::{DeviceMemory, DeviceUuid};
use tetris_gpu_protocol::{ErrorCode, ModelState, Reason, Reply, Request, TransferEntry};
use tetris_gpu_server::residency::{ModelKey, ModelSpec, Part, TenantId};
use tetris_gpu_server::{DeviceLinks, Limits, ServerConfig};
use tetris_store_layout::{CreateOptions, ObjectRef, Store};

use crate::mirror::raw::Raw;
use crate::mirror::{DEVICE, LONG, MIB, Mirror, check, config, eventually, publish};

fn uuid(mirror: &Mirror) -> DeviceUuid {
    mirror.device.info().unwrap().uuid
}

fn prefetch(mirror: &Mirror, objects: &[ObjectRef]) -> Result<Prefetched, ClientError> {
    let wanted = Wanted::new(WantedModel::Objects(objects.to_vec()));
    let client = mirror.connect();
    client.prefetch(Some(uuid(mirror)), &wanted, &mut |_| {})
}

fn key(objects: &[ObjectRef]) -> ModelKey {
    let part = |object: &ObjectRef| Part {
        object: object.id,
        len: object.len,
    };
    let parts: Vec<_> = objects.iter().map(part).collect();
    ModelSpec::try_new(&parts, &[]).unwrap().key()
}

fn state(mirror: &Mirror, models: &[ModelKey]) -> DeviceState {
    mirror.connect().describe(uuid(mirror), models).unwrap()
}

#[test]
fn a_prefetched_model_stays_until_its_client_goes() {
    let mirror = Mirror::new(8);
    let names = ["a", "b", "c"];
    let model = mirror.model(&names, 1024);
    let prefetched = prefetch(&mirror, &model).unwrap();
    assert!(prefetched.wait(LONG).unwrap());
    assert_eq!(
        (prefetched.device(), prefetched.bytes_left()),
        (uuid(&mirror), 0)
    );
    let counters = mirror.server.counters();
    assert_eq!((counters.prefetches, counters.chunks_exported), (1, 0));
    // Held: another model finds no room.
    let other = mirror.model(&["x", "y", "z", "u", "v", "w"], 1024);
    assert!(mirror.acquire(&other).is_err());
    let mapped = mirror.acquire(&model).unwrap();
    check(&mapped, &model, &names, 1024);
    assert_eq!(mirror.server.counters().copied_objects, 3, "none anew");
    drop(mapped);
    assert_eq!(mirror.usage().held_bytes, 3 * MIB);
    prefetched.hang_up();
    eventually("nothing is held", || mirror.usage().held_bytes == 0);
    assert!(mirror.acquire(&other).is_ok(), "it was evicted");
}

#[test]
fn the_state_of_a_device_has_the_models_that_are_named() {
    let mirror = Mirror::new(16);
    let (one, other) = (mirror.model(&["a", "b"], 1024), mirror.model(&["c"], 1024));
    let keys = [key(&one), key(&other)];
    let before = state(&mirror, &keys);
    let presence = |state: &DeviceState| {
        let models = state.models.iter();
        let presence = models.map(|model| (model.state, model.bytes, model.bytes_left));
        presence.collect::<Vec<_>>()
    };
    let absent = (ModelState::Absent, 0, 0);
    assert_eq!(presence(&before), [absent, absent]);
    assert_eq!(before.device.free_bytes, 16 * MIB);
    assert_eq!(before.device.bytes_per_second, None);
    assert_eq!((before.links, before.transfers), (vec![], vec![]));
    let prefetched = prefetch(&mirror, &one).unwrap();
    assert!(prefetched.wait(LONG).unwrap());
    let after = state(&mirror, &keys);
    let resident = (ModelState::Resident, 2 * MIB, 0);
    assert_eq!(presence(&after), [resident, absent]);
    assert_eq!(after.device.free_bytes, 14 * MIB);
    // Who names nothing learns nothing of models.
    assert_eq!(state(&mirror, &[]).models, []);
}

#[test]
fn a_store_tells_nothing_of_anothers_models() {
    let mirror = Mirror::new(16);
    let root = mirror.directory.path().join("other");
    let store = std::sync::Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    let socket = mirror.directory.path().join("other-gpu");
    let foreign = std::sync::Arc::clone(&store);
    mirror
        .server
        .serve(TenantId(1), foreign, None, &socket)
        .unwrap();
    let model = mirror.model(&["a"], 1024);
    let same = publish(&store, &["a"], 1024);
    assert_eq!(key(&model), key(&same), "the content is the same");
    let prefetched = prefetch(&mirror, &model).unwrap();
    assert!(prefetched.wait(LONG).unwrap());
    let kind = tetris_gpu_device::host::HostDevice::KIND;
    let client = tetris_gpu_client::Client::connect(&socket, kind, LONG);
    let description = client.unwrap().describe(uuid(&mirror), &[key(&same)]);
    assert_eq!(description.unwrap().models[0].state, ModelState::Absent);
}

#[test]
fn links_and_transfers_are_told() {
    let patient = ServerConfig {
        memory_patience: LONG,
        ..config(Limits::default())
    };
    let mirror = Mirror::configured(16, &patient, None);
    let links = DeviceLinks {
        from_host: Some(25_000_000_000),
        switch: Some("0000:01:00.0".to_owned()),
        from_devices: BTreeMap::from([(DEVICE, Some(50))]),
    };
    mirror.server.set_links(DEVICE, links);
    let model = mirror.model(&["a", "b"], 1024);
    // The device has no memory for a chunk for now.
    mirror.faults(Faults {
        creates: 0,
        ..Faults::default()
    });
    let prefetched = prefetch(&mirror, &model).unwrap();
    let key = key(&model);
    let named = state(&mirror, &[key]);
    let entry = |model| TransferEntry {
        model,
        bytes_left: 2 * MIB,
    };
    assert_eq!(named.transfers, [entry(Some(key))]);
    assert_eq!(named.models[0].state, ModelState::Loading);
    assert_eq!(named.models[0].bytes_left, 2 * MIB);
    assert_eq!(state(&mirror, &[]).transfers, [entry(None)]);
    assert_eq!(named.device.bytes_per_second, Some(25_000_000_000));
    assert_eq!(named.device.switch, "0000:01:00.0");
    assert_eq!(named.links[0].bytes_per_second, Some(50));
    let report = mirror.server.report();
    assert_eq!(report.devices[0].transfer_bytes, 2 * MIB);
    mirror.faults(Faults::default());
    assert!(prefetched.wait(LONG).unwrap());
    eventually("the transfer has ended", || {
        state(&mirror, &[key]).transfers.is_empty()
    });
}

#[test]
fn a_prefetch_that_fails_says_why() {
    let mirror = Mirror::new(16);
    let model = mirror.model(&["a", "b"], 1024);
    mirror.faults(Faults {
        creates: 0,
        ..Faults::default()
    });
    let prefetched = prefetch(&mirror, &model).unwrap();
    let failed = prefetched.wait(LONG).unwrap_err();
    let full = Reason::DEVICE_FULL;
    assert!(matches!(failed, ClientError::Failed { reason, .. } if reason == full));
    let again = prefetched.wait(Duration::ZERO).unwrap_err();
    assert!(matches!(again, ClientError::Failed { .. }), "{again}");
    assert_eq!(state(&mirror, &[key(&model)]).transfers, []);
}

#[test]
fn a_prefetch_waits_for_room() {
    let mirror = Mirror::new(4);
    let (one, other) = (
        mirror.model(&["a", "b", "c"], 1024),
        mirror.model(&["x", "y"], 1024),
    );
    let prefetched = prefetch(&mirror, &one).unwrap();
    let wanted = Wanted {
        wait: LONG,
        ..Wanted::new(WantedModel::Objects(other.clone()))
    };
    let mut holder = Some(prefetched);
    let waited = mirror.connect().prefetch(None, &wanted, &mut |waiting| {
        assert!(waiting.need_bytes > 0);
        drop(holder.take());
    });
    assert!(waited.unwrap().wait(LONG).unwrap());
    assert!(holder.is_none());
}

#[test]
fn a_device_that_is_not_there_or_lost_is_refused() {
    let mirror = Mirror::new(4);
    let other = mirror.connect().describe(DeviceUuid([3; 16]), &[]);
    let refused =
        |error| matches!(error, ClientError::Refused(why) if why.reason == Reason::NO_DEVICE);
    assert!(refused(other.unwrap_err()));
    mirror.device.lose();
    mirror.server.check();
    eventually("the device is lost", || {
        let description = mirror.connect().describe(uuid_of_simulated(), &[]);
        description.is_err_and(refused)
    });
}

fn uuid_of_simulated() -> DeviceUuid {
    let device = tetris_gpu_device::host::HostDevice::new(0);
    device.info().unwrap().uuid
}

#[test]
fn a_prefetching_client_takes_turns_like_any_other() {
    let mirror = Mirror::with(16, Limits::default(), None);
    let model = mirror.model(&["a"], 1024);
    let mut raw = Raw::greeted(&mirror.socket);
    let acquire = tetris_gpu_protocol::Acquire {
        on: None,
        wait_ms: 0,
        order: 0,
        model: tetris_gpu_protocol::ModelNamed::Objects(1),
    };
    raw.say(&Request::Prefetch(acquire.clone()));
    raw.say(&Request::Objects(model));
    raw.hear_until(|reply| matches!(reply, Reply::Complete));
    raw.say(&Request::Status);
    raw.hear_until(|reply| matches!(reply, Reply::StatusReport(_)));
    raw.say(&Request::Release);
    assert_eq!(raw.hear(), Some(Reply::Released));
    // A second one on the same connection, and a message that does not belong there.
    raw.say(&Request::Prefetch(acquire));
    raw.say(&Request::Taken);
    let last = raw.last_word();
    let out_of_turn = ErrorCode::OUT_OF_TURN;
    assert!(
        matches!(last, Some(Reply::Error { code, .. }) if code == out_of_turn),
        "{last:?}"
    );
    eventually("nothing is held", || mirror.usage().held_models == 0);
}

/// A server of an earlier version answers that it does not know the kind, and hangs up.
#[test]
fn an_earlier_server_is_named_as_such() {
    use std::io::{Read, Write};
    use tetris_gpu_device::MemoryKind;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("gpu");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut preamble = [0; 12];
            stream.read_exact(&mut preamble).unwrap();
            stream.write_all(&preamble).unwrap();
            stream.read_exact(&mut [0; 10]).unwrap();
            let hello = Reply::HelloAck {
                memory: MemoryKind::Host,
                server: "0.0.9".to_owned(),
            };
            stream.write_all(&hello.encode()).unwrap();
            let mut header = [0; 5];
            stream.read_exact(&mut header).unwrap();
            assert!([9, 10].contains(&header[4]));
            let error = Reply::Error {
                code: ErrorCode::UNKNOWN_KIND,
                text: "unknown".to_owned(),
            };
            stream.write_all(&error.encode()).unwrap();
        }
    });
    let connect = || {
        use tetris_gpu_client::Client;
        Client::connect(&socket, MemoryKind::Host, Duration::from_secs(20)).unwrap()
    };
    let described = connect().describe(DeviceUuid([0; 16]), &[]).unwrap_err();
    assert!(
        matches!(
            described,
            ClientError::TooOld {
                request: "Describe"
            }
        ),
        "{described}"
    );
    let wanted = Wanted::new(WantedModel::Objects(vec![ObjectRef::of(b"one")]));
    let prefetched = connect().prefetch(None, &wanted, &mut |_| {}).unwrap_err();
    // The error can come while the client still writes.
    let known = matches!(
        prefetched,
        ClientError::TooOld {
            request: "Prefetch"
        }
    );
    assert!(
        known || matches!(prefetched, ClientError::Io(_) | ClientError::Closed),
        "{prefetched}"
    );
    server.join().unwrap();
}
