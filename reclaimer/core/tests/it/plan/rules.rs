//! Single rules, by example.

use std::collections::BTreeMap;

use tetris_reclaimer_core::{
    Event, Expiry, Goal, ModelSnapshot, MountSnapshot, ObjectSnapshot, Order, Plan, Policy,
    PolicyConfig, Reason, ReloadCost, RoomRequest, Snapshot, SnapshotError, State, StorePolicy,
    StoreSnapshot, plan,
};

use crate::plan::generate::{model_id, object_id};

const GIB: u64 = 1 << 30;
const MINUTE_MS: u64 = 60_000;

fn object(number: usize, gib: u64, last_use_ms: u64) -> ObjectSnapshot {
    ObjectSnapshot {
        id: object_id(number),
        len_bytes: gib * GIB,
        allocated_bytes: gib * GIB,
        published_ms: 0,
        last_use_ms,
        held: false,
    }
}

fn model(number: usize, objects: &[u32], gib: u64) -> ModelSnapshot {
    let cost = ReloadCost {
        fixed_ms: 1000,
        bytes_per_sec: GIB,
    };
    ModelSnapshot {
        id: model_id(number),
        objects: objects.to_vec(),
        total_bytes: gib * GIB,
        last_use_ms: 0,
        reload_ms: cost.of(gib * GIB),
        warm: false,
    }
}

fn store(name: &str, objects: Vec<ObjectSnapshot>, models: Vec<ModelSnapshot>) -> StoreSnapshot {
    StoreSnapshot {
        name: name.to_owned(),
        objects,
        models,
        ..StoreSnapshot::default()
    }
}

fn snapshot(free_gib: u64, stores: Vec<StoreSnapshot>) -> Snapshot {
    let used: u64 = stores.iter().map(StoreSnapshot::used_bytes).sum();
    Snapshot {
        mounts: vec![MountSnapshot {
            capacity_bytes: used + free_gib * GIB,
            free_bytes: free_gib * GIB,
            ..MountSnapshot::default()
        }],
        stores,
        requests: Vec::new(),
    }
}

fn policy(store: StorePolicy) -> Policy {
    Policy::try_new(PolicyConfig {
        high_watermark_percent: 90,
        low_watermark_percent: 50,
        store,
        ..PolicyConfig::default()
    })
    .unwrap()
}

fn lru() -> StorePolicy {
    StorePolicy {
        keep_alive_secs: 60,
        order: Order::Lru,
        ..StorePolicy::default()
    }
}

fn run(snapshot: &Snapshot, policy: &Policy, state: &State, now_ms: u64) -> Plan {
    plan(snapshot, policy, state, now_ms, usize::MAX).unwrap()
}

fn freed(plan: &Plan) -> Vec<(usize, u32, Reason)> {
    let actions = plan.actions.iter();
    actions
        .map(|action| (action.store, action.object, action.reason))
        .collect()
}

#[test]
fn over_the_high_watermark_the_least_recently_used_go_until_the_low_one() {
    let objects = (0..10).map(|n| object(n, 1, 1000 - n as u64)).collect();
    let full = snapshot(0, vec![store("a", objects, Vec::new())]);
    let plan = run(&full, &policy(lru()), &State::default(), 10 * MINUTE_MS);
    let expected: Vec<_> = (5..10)
        .rev()
        .map(|n| (0, n, Reason::OverWatermark))
        .collect();
    assert_eq!(freed(&plan), expected);
    let mut below = full;
    below.mounts[0].free_bytes += GIB;
    below.mounts[0].capacity_bytes += GIB;
    // 10 of 11: just over 90 percent. 10 of 12: below.
    let state = State::default();
    assert!(
        !run(&below, &policy(lru()), &state, 10 * MINUTE_MS)
            .actions
            .is_empty()
    );
    below.mounts[0].free_bytes += GIB;
    below.mounts[0].capacity_bytes += GIB;
    assert!(
        run(&below, &policy(lru()), &state, 10 * MINUTE_MS)
            .actions
            .is_empty()
    );
    // Unless the last plan was cut short on its way down.
    below.mounts[0].draining = true;
    assert_eq!(
        run(&below, &policy(lru()), &state, 10 * MINUTE_MS)
            .actions
            .len(),
        4
    );
}

#[test]
fn only_protected_things_left_stay_and_the_plan_says_how_much_is_missing() {
    let mut warm = model(0, &[0, 1], 4);
    warm.warm = true;
    let mut used = object(2, 1, 0);
    used.held = true;
    let objects = vec![object(0, 2, 0), object(1, 2, 0), used];
    let mut full = snapshot(0, vec![store("a", objects, vec![warm])]);
    full.requests.push(RoomRequest {
        store: 0,
        bytes: GIB,
        inodes: 0,
    });
    let plan = run(&full, &policy(lru()), &State::default(), 10 * MINUTE_MS);
    assert!(plan.actions.is_empty());
    let told = plan.shortfalls[0];
    assert_eq!((told.goal, told.missing_bytes), (Goal::Requests, GIB));
    assert_eq!(
        (told.kept.held_bytes, told.kept.protected_bytes),
        (GIB, 4 * GIB)
    );
    assert_eq!(plan.shortfalls[1].goal, Goal::LowWatermark);
}

#[test]
fn a_fixed_window_frees_though_there_is_room() {
    let objects = vec![object(0, 1, 0), object(1, 1, 9 * MINUTE_MS)];
    let roomy = snapshot(100, vec![store("a", objects, Vec::new())]);
    let fixed = StorePolicy {
        expiry: Expiry::Fixed,
        expire_after_secs: 600,
        ..lru()
    };
    let plan = |now_ms| {
        freed(&run(
            &roomy,
            &policy(fixed.clone()),
            &State::default(),
            now_ms,
        ))
    };
    assert_eq!(plan(10 * MINUTE_MS - 1), []);
    assert_eq!(plan(10 * MINUTE_MS), [(0, 0, Reason::KeepAliveExpired)]);
    assert_eq!(plan(19 * MINUTE_MS).len(), 2);
}

#[test]
fn a_shared_object_stays_as_long_as_any_model_that_wants_it() {
    // Model 0 is usually idle for 10 minutes, model 1 for 100; both contain object 1.
    let objects = vec![object(0, 1, 0), object(1, 1, 0), object(2, 1, 0)];
    let models = vec![model(0, &[0, 1], 2), model(1, &[1, 2], 2)];
    let roomy = snapshot(100, vec![store("a", objects, models)]);
    let mut state = State::default();
    for (number, minutes) in [(0, 10), (1, 100)] {
        let (model, mut at_ms) = (model_id(number), 0);
        for _ in 0..12 {
            state.observe("a", Event::Loaded { model, at_ms });
            state.observe("a", Event::Released { model, at_ms });
            at_ms += minutes * MINUTE_MS;
        }
    }
    let learned = policy(StorePolicy {
        expiry: Expiry::Learned,
        ..lru()
    });
    let plan = |minutes: u64| run(&roomy, &learned, &state, minutes * MINUTE_MS);
    assert_eq!(freed(&plan(12)), []);
    let some = plan(13);
    assert_eq!(freed(&some), [(0, 0, Reason::KeepAliveExpired)]);
    assert_eq!(some.models.len(), 1);
    assert_eq!(
        (some.models[0].after_bytes, some.models[0].gone),
        (GIB, false)
    );
    let all = plan(112);
    assert_eq!(all.actions.len(), 3);
    assert!(all.models.iter().all(|change| change.gone));
}

#[test]
fn greedy_dual_frees_what_costs_least_per_byte_and_shared_things_last() {
    // Two variants share object 0; model 2 is as large and was used most often.
    let objects = vec![
        object(0, 4, 0),
        object(1, 1, 0),
        object(2, 1, 0),
        object(3, 5, 0),
    ];
    let models = vec![
        model(0, &[0, 1], 5),
        model(1, &[0, 2], 5),
        model(2, &[3], 5),
    ];
    let mut full = snapshot(0, vec![store("a", objects, models)]);
    full.requests.push(RoomRequest {
        bytes: 1,
        ..RoomRequest::default()
    });
    let mut state = State::default();
    for (number, uses) in [(0, 4), (1, 3), (2, 5)] {
        let model = model_id(number);
        (0..uses).for_each(|at_ms| state.observe("a", Event::Loaded { model, at_ms }));
    }
    let cost = policy(StorePolicy {
        order: Order::GreedyDual,
        ..StorePolicy::default()
    });
    let mut order = Vec::new();
    for gib in [1, 2, 7, 11] {
        full.requests[0].bytes = gib * GIB;
        let plan = run(&full, &cost, &state, 0);
        order = plan.actions.iter().map(|action| action.object).collect();
        assert!(plan.actions.is_sorted_by_key(|action| action.priority));
    }
    assert_eq!(order, [2, 1, 3, 0]);
    // Freeing for lack of room makes new models more valuable than unused ones.
    let plan = run(&full, &cost, &state, 0);
    state.freed("a", &plan.actions[1]);
    let clock = state.store("a").unwrap().clock();
    assert_eq!(clock, plan.actions[1].priority);
    assert!(clock > plan.actions[0].priority);
}

#[test]
fn borrowed_room_goes_back_first_and_a_guarantee_is_kept() {
    let quota = |guaranteed_gib: u64, limit_gib: Option<u64>| StorePolicy {
        guaranteed_bytes: guaranteed_gib * GIB,
        limit_bytes: limit_gib.map(|gib| gib * GIB),
        ..lru()
    };
    let stores = BTreeMap::from([
        ("a".to_owned(), quota(4, None)),
        ("b".to_owned(), quota(4, Some(8))),
    ]);
    let policy = Policy::try_new(PolicyConfig {
        high_watermark_percent: 100,
        low_watermark_percent: 100,
        store: lru(),
        stores,
        ..PolicyConfig::default()
    })
    .unwrap();
    let many = |count: usize| (0..count).map(|n| object(n, 1, n as u64)).collect();
    // `a` has borrowed 2 GiB beyond its guarantee, `b` has 2 of its 4.
    let mut full = snapshot(
        0,
        vec![
            store("a", many(6), Vec::new()),
            store("b", many(2), Vec::new()),
        ],
    );
    let mut ask = |store: usize, gib: u64| {
        full.requests = vec![RoomRequest {
            store,
            bytes: gib * GIB,
            inodes: 0,
        }];
        let plan = run(&full, &policy, &State::default(), 10 * MINUTE_MS);
        let from = |store: usize| {
            let actions = plan.actions.iter();
            actions.filter(|action| action.store == store).count()
        };
        (from(0), from(1), plan.shortfalls.len())
    };
    assert_eq!(ask(1, 2), (2, 0, 0));
    // The part beyond the room that `a` has borrowed comes from `b` itself.
    assert_eq!(ask(1, 3), (2, 1, 0));
    // `b` may have at most 8, even with more free memory, so it must make that room itself.
    assert_eq!(ask(1, 9), (2, 2, 2));
    // `a` can take nothing from `b`, which is within its guarantee, nor the room of that guarantee
    // which `b` does not use yet.
    assert_eq!(ask(0, 4), (6, 0, 0));
    assert_eq!(ask(0, 5), (6, 0, 1));
}

/// If a guarantee applied to the store's own load, less need would free objects that more need
/// spares.
#[test]
fn a_guarantee_does_not_bind_against_the_need_of_its_own_store() {
    let guaranteed = policy(StorePolicy {
        guaranteed_bytes: 3 * GIB,
        ..lru()
    });
    // The first object in order is larger than the store's excess over its guarantee.
    let objects = vec![object(0, 2, 1), object(1, 1, 2), object(2, 1, 3)];
    let mut full = snapshot(0, vec![store("a", objects, Vec::new())]);
    full.requests = vec![RoomRequest {
        bytes: 1,
        ..RoomRequest::default()
    }];
    let plan = run(&full, &guaranteed, &State::default(), 10 * MINUTE_MS);
    let pressed: Vec<_> = plan.actions.iter().map(|action| action.object).collect();
    assert_eq!(pressed, [0]);
}

#[test]
fn a_store_over_its_limit_gives_up_its_own() {
    let limited = StorePolicy {
        limit_bytes: Some(2 * GIB),
        ..lru()
    };
    let objects = (0..4).map(|n| object(n, 1, n as u64)).collect();
    let roomy = snapshot(100, vec![store("a", objects, Vec::new())]);
    let plan = run(&roomy, &policy(limited), &State::default(), 10 * MINUTE_MS);
    let expected = [(0, 0, Reason::OverQuota), (0, 1, Reason::OverQuota)];
    assert_eq!(freed(&plan), expected);
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let good = snapshot(
        1,
        vec![store("a", vec![object(0, 1, 0)], vec![model(0, &[0], 1)])],
    );
    let refused = |change: fn(&mut Snapshot)| {
        let mut bad = good.clone();
        change(&mut bad);
        plan(&bad, &Policy::default(), &State::default(), 0, 1).unwrap_err()
    };
    assert_eq!(
        refused(|bad| bad.stores[0].mount = 1).to_string(),
        "store `a`: expected a mount below 1, found 1"
    );
    assert_eq!(
        refused(|bad| bad.stores[0].models[0].objects = vec![1]).to_string(),
        format!(
            "store `a`, model {}: expected objects below 1, found 1",
            model_id(0)
        )
    );
    assert_eq!(
        refused(|bad| bad.stores.push(bad.stores[0].clone())),
        SnapshotError::DuplicateStore {
            store: "a".to_owned()
        }
    );
    let request = |bad: &mut Snapshot| {
        bad.requests.push(RoomRequest {
            store: 1,
            bytes: 1,
            inodes: 0,
        });
    };
    assert_eq!(
        refused(request).to_string(),
        "request for room: expected a store below 1, found 1"
    );
}
