//! Generated small stores that cover every feature.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tetris_reclaimer_core::{
    Event, Expiry, LearnedKeepAlive, ModelSnapshot, MountSnapshot, ObjectSnapshot, Order, Policy,
    PolicyConfig, RecordId, RoomRequest, Snapshot, State, StorePolicy, StoreSnapshot,
};
use tetris_store_layout::{ManifestId, ObjectId};

pub const PAGE: u64 = 4096;
/// Time of every plan, in milliseconds.
pub const NOW_MS: u64 = 400_000;

pub fn object_id(number: usize) -> ObjectId {
    ObjectId::of(&number.to_le_bytes())
}

pub fn model_id(number: usize) -> RecordId {
    RecordId::Manifest(ManifestId::of(&number.to_le_bytes()))
}

pub fn store_name(number: usize) -> String {
    format!("store-{number}")
}

#[derive(Debug, Clone)]
pub struct Case {
    pub snapshot: Snapshot,
    pub policy: Policy,
    pub state: State,
}

prop_compose! {
    fn object()(
        pages in 0_u64..6,
        // Few different times, so that ties occur.
        published_ms in (0_u64..9).prop_map(|step| step * 45_000),
        last_use_ms in (0_u64..9).prop_map(|step| step * 45_000),
        held in prop::bool::weighted(0.2),
    ) -> ObjectSnapshot {
        ObjectSnapshot {
            id: object_id(0),
            len_bytes: pages * PAGE,
            allocated_bytes: pages * PAGE,
            published_ms,
            last_use_ms,
            held,
        }
    }
}

prop_compose! {
    fn model(objects: usize)(
        indices in vec(0..objects.max(1) as u32, 0..=objects.min(5)),
        total_pages in 1_u64..40,
        last_use_ms in (0_u64..9).prop_map(|step| step * 45_000),
        reload_ms in 0_u64..5_000,
        warm in prop::bool::weighted(0.15),
    ) -> ModelSnapshot {
        ModelSnapshot {
            id: model_id(0),
            objects: if objects == 0 { Vec::new() } else { indices },
            total_bytes: total_pages * PAGE,
            last_use_ms,
            reload_ms,
            warm,
        }
    }
}

fn store(mounts: usize) -> impl Strategy<Value = StoreSnapshot> {
    (vec(object(), 0..14), 0..mounts, 0_u64..4).prop_flat_map(|(objects, mount, record_pages)| {
        vec(model(objects.len()), 0..5).prop_map(move |models| {
            let mut store = StoreSnapshot {
                name: String::new(),
                mount,
                objects: objects.clone(),
                models,
                record_bytes: record_pages * PAGE,
                ..StoreSnapshot::default()
            };
            for (number, object) in store.objects.iter_mut().enumerate() {
                object.id = object_id(number);
            }
            for (number, model) in store.models.iter_mut().enumerate() {
                model.id = model_id(number);
            }
            store
        })
    })
}

prop_compose! {
    fn store_policy()(
        keep_alive_secs in 0_u64..200,
        expiry in prop::sample::select(&Expiry::ALL[..]),
        longer_secs in 0_u64..200,
        order in prop::sample::select(&Order::ALL[..]),
        guaranteed_pages in prop_oneof![Just(0_u64), 0_u64..30],
        limit_pages in prop::option::weighted(0.3, 0_u64..30),
    ) -> StorePolicy {
        StorePolicy {
            keep_alive_secs,
            expiry,
            expire_after_secs: keep_alive_secs + longer_secs,
            learned: LearnedKeepAlive {
                standard_secs: keep_alive_secs + longer_secs,
                min_idle_periods: 2,
                ..LearnedKeepAlive::PAPER
            },
            order,
            guaranteed_bytes: guaranteed_pages * PAGE,
            limit_bytes: limit_pages.map(|pages| (guaranteed_pages + pages) * PAGE),
            ..StorePolicy::default()
        }
    }
}

/// Random events of the stores' models.
fn state(stores: usize) -> impl Strategy<Value = State> {
    vec((0..stores, 0_usize..5, 0_u64..20_000_000, 0_u8..8), 0..60).prop_map(|events| {
        let mut state = State::default();
        let mut at_ms = 0;
        for (store, model, later_ms, kind) in events {
            at_ms += later_ms / 40;
            let model = model_id(model);
            let event = match kind {
                0..=3 => Event::Loaded { model, at_ms },
                4..=6 => Event::Released { model, at_ms },
                _ => Event::Gone { model },
            };
            state.observe(&store_name(store), event);
        }
        state
    })
}

/// One to `stores` stores on one or two mounts, with up to `requests` waiting loads.
pub fn case(stores: usize, requests: usize) -> impl Strategy<Value = Case> {
    let snapshot = (1..=2_usize).prop_flat_map(move |mounts| {
        (
            vec(store(mounts), 1..=stores),
            vec((0_u64..40, 0_u64..20, prop::bool::weighted(0.2)), mounts),
            vec((0..stores, 0_u64..40), 0..=requests),
        )
    });
    let policy = (vec(store_policy(), stores), 1_u32..=100, 0_u32..=100);
    (snapshot, policy, state(stores)).prop_map(
        |((mut stores, rooms, requests), (policies, high, low), state)| {
            for (number, store) in stores.iter_mut().enumerate() {
                store.name = store_name(number);
            }
            let mounts = rooms.iter().enumerate().map(|(index, room)| {
                let (free, others, draining) = room;
                let on_it = stores.iter().filter(|store| store.mount == index);
                let used: u64 = on_it.map(StoreSnapshot::used_bytes).sum();
                MountSnapshot {
                    capacity_bytes: used + (free + others) * PAGE,
                    free_bytes: free * PAGE,
                    draining: *draining,
                    ..MountSnapshot::default()
                }
            });
            let mounts = mounts.collect();
            let requests = requests.into_iter().map(|(store, pages)| RoomRequest {
                store: store % stores.len(),
                bytes: pages * PAGE,
                inodes: 0,
            });
            let requests = requests.collect();
            let config = PolicyConfig {
                high_watermark_percent: high,
                low_watermark_percent: low.min(high),
                store: StorePolicy::default(),
                stores: policies
                    .into_iter()
                    .enumerate()
                    .map(|(number, policy)| (store_name(number), policy))
                    .collect::<BTreeMap<_, _>>(),
                ..PolicyConfig::default()
            };
            Case {
                snapshot: Snapshot {
                    mounts,
                    stores,
                    requests,
                },
                policy: Policy::try_new(config).unwrap(),
                state,
            }
        },
    )
}
