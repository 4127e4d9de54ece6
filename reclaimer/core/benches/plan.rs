//! Time of one plan over 100,000 objects, 1,000 of them held.
//!
//! `cargo bench -p tetris-reclaimer-core`; `-- --rounds N` changes the number of rounds (15),
//! `-- --json FILE` writes the results to a file too. The target for a whole pass of the daemon is
//! 200 ms; the benchmark does not fail above it.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tetris_reclaimer_core::{
    Event, Expiry, ModelSnapshot, MountSnapshot, ObjectSnapshot, Order, Policy, PolicyConfig,
    RecordId, RoomRequest, Snapshot, State, StorePolicy, StoreSnapshot, plan,
};
use tetris_store_layout::{ManifestId, ObjectId};

const OBJECTS: u32 = 100_000;
const HELD_EVERY: u32 = 100;
const MODELS: u32 = 1_000;
const OBJECT_BYTES: u64 = 1 << 20;
const NOW_MS: u64 = 100_000_000;

fn main() {
    let mut rounds = 15;
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--rounds" {
            rounds = args.next().and_then(|text| text.parse().ok()).unwrap_or(15);
        } else if arg == "--json" {
            json = args.next();
        }
    }
    let mut plans = Vec::new();
    println!("one plan over {OBJECTS} objects of {MODELS} models, 1 in {HELD_EVERY} held");
    println!(
        "{:<44} {:>10} {:>10} {:>9}",
        "", "median", "slowest", "actions"
    );
    for order in Order::ALL {
        for (what, fill, expiry, ask) in [
            ("nothing to do", 50, Expiry::Never, 0),
            ("over the watermark", 100, Expiry::Never, 0),
            ("a load waits for 1 GiB", 90, Expiry::Never, 1 << 30),
            ("learned windows, most expired", 50, Expiry::Learned, 0),
        ] {
            let snapshot = snapshot(fill, ask);
            let policy = policy(order, expiry);
            let state = state(&snapshot);
            let mut times = Vec::new();
            let mut actions = 0;
            for _ in 0..rounds {
                let begin = Instant::now();
                let plan = plan(black_box(&snapshot), &policy, &state, NOW_MS, usize::MAX);
                times.push(begin.elapsed());
                actions = plan.map_or(0, |plan| plan.actions.len());
            }
            times.sort_unstable();
            let at = |index: usize| times.get(index).map_or(0.0, Duration::as_secs_f64) * 1e3;
            let name = format!("{order:?}, {what}");
            let (median, slowest) = (at(times.len() / 2), at(times.len().saturating_sub(1)));
            println!("{name:<44} {median:>7.2} ms {slowest:>7.2} ms {actions:>9}");
            plans.push(serde_json::json!({
                "name": name, "median_ms": median, "slowest_ms": slowest, "actions": actions,
            }));
        }
    }
    if let Some(path) = json {
        let report = serde_json::json!({"objects": OBJECTS, "rounds": rounds, "plans": plans});
        std::fs::write(&path, format!("{report:#}\n"))
            .unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    }
}

fn snapshot(fill_percent: u64, ask: u64) -> Snapshot {
    let moment = |number: u32| u64::from(number.wrapping_mul(2_654_435_761)) % NOW_MS;
    let objects: Vec<ObjectSnapshot> = (0..OBJECTS)
        .map(|number| ObjectSnapshot {
            id: ObjectId::of(&number.to_le_bytes()),
            len_bytes: OBJECT_BYTES,
            allocated_bytes: OBJECT_BYTES,
            published_ms: 0,
            last_use_ms: 0,
            held: number % HELD_EVERY == 0,
        })
        .collect();
    let per_model = OBJECTS / MODELS;
    let models = (0..MODELS).map(|number| {
        // Each model shares half of its objects with the next one.
        let first = number * per_model;
        let objects = (first..first + per_model + per_model / 2).map(|object| object % OBJECTS);
        ModelSnapshot {
            id: RecordId::Manifest(ManifestId::of(&number.to_le_bytes())),
            objects: objects.collect(),
            total_bytes: u64::from(per_model + per_model / 2) * OBJECT_BYTES,
            last_use_ms: moment(number),
            reload_ms: 500 + u64::from(number % 7) * 100,
            warm: number % 50 == 0,
        }
    });
    let store = StoreSnapshot {
        name: "default".to_owned(),
        objects,
        models: models.collect(),
        ..StoreSnapshot::default()
    };
    let used = store.used_bytes();
    let capacity_bytes = used * 100 / fill_percent;
    Snapshot {
        mounts: vec![MountSnapshot {
            capacity_bytes,
            free_bytes: capacity_bytes - used,
            ..MountSnapshot::default()
        }],
        stores: vec![store],
        requests: (ask > 0)
            .then_some(RoomRequest {
                store: 0,
                // This much beyond the free memory.
                bytes: capacity_bytes - used + ask,
                inodes: 0,
            })
            .into_iter()
            .collect(),
    }
}

fn policy(order: Order, expiry: Expiry) -> Policy {
    let store = StorePolicy {
        order,
        expiry,
        ..StorePolicy::default()
    };
    let config = PolicyConfig {
        store,
        ..PolicyConfig::default()
    };
    Policy::try_new(config).unwrap_or_default()
}

/// State in which every model was used twelve times.
fn state(snapshot: &Snapshot) -> State {
    let mut state = State::default();
    for model in snapshot.stores.iter().flat_map(|store| &store.models) {
        let (id, mut at_ms) = (model.id, 0);
        for _ in 0..12 {
            state.observe("default", Event::Loaded { model: id, at_ms });
            state.observe("default", Event::Released { model: id, at_ms });
            at_ms += model.last_use_ms % 10_000_000;
        }
    }
    state
}
