//! The committed seeds of the target `persisted_state`.

use serde_json::{Value, json};
use tetris_reclaimer_core::{Event, State};
use tetris_store_layout::ObjectId;

use crate::persisted_state::{STORE, STORE_ID, model};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let learned = state();
    let changed = |pointer: &str, value: Value| {
        let mut state = learned.clone();
        *state.pointer_mut(pointer).unwrap() = value;
        state
    };
    let of_model = format!("/state/stores/{STORE}/models/{}", model());
    let of_model = |field: &str| format!("{of_model}/{field}");
    let most = json!({"bins": [[0, u32::MAX], [239, u32::MAX]], "out_of_bounds": u32::MAX});
    let object = ObjectId::of(b"one").to_string();
    let states = [
        ("valid-learned", learned.clone()),
        ("valid-empty", changed("/state/stores", json!({}))),
        ("valid-most-idle-times", changed(&of_model("idle"), most)),
        (
            "valid-clock-at-its-end",
            changed(&of_model("clock"), json!(u64::MAX)),
        ),
        (
            "valid-uses-at-their-end",
            changed(&of_model("uses"), json!(u32::MAX)),
        ),
        (
            "valid-times-of-objects",
            changed(
                "/last_held",
                json!({"7": [object, "no object"], "18446744073709551615": []}),
            ),
        ),
        ("hostile-version", changed("/version", json!(2))),
        (
            "hostile-record",
            changed("/state/stores/s/models", json!({"ma\u{7f}nifest-0": {}})),
        ),
        (
            "hostile-digest",
            changed(
                "/state/stores/s/models",
                json!({(format!("manifest-{}\u{7f}", "0".repeat(63))): {}}),
            ),
        ),
        (
            "hostile-field",
            changed(
                &of_model("idle"),
                json!({"b\u{7f}ins": [], "out_of_bounds": 0}),
            ),
        ),
        ("hostile-negative", changed(&of_model("seen_ms"), json!(-1))),
        (
            "hostile-bin",
            changed(
                &of_model("idle"),
                json!({"bins": [[240, 1]], "out_of_bounds": 0}),
            ),
        ),
        (
            "hostile-bins-fall",
            changed(
                &of_model("idle"),
                json!({"bins": [[5, 1], [4, 1]], "out_of_bounds": 0}),
            ),
        ),
        ("hostile-stores", changed("/state/stores", json!([]))),
        ("hostile-no-map", json!([])),
    ];
    let mut seeds: Vec<(&'static str, Vec<u8>)> = states
        .into_iter()
        .map(|(name, state)| (name, state.to_string().into_bytes()))
        .collect();
    seeds.extend([
        ("hostile-no-bytes", Vec::new()),
        ("hostile-nested", b"[".repeat(300)),
        (
            "hostile-cut",
            learned.to_string().into_bytes()[..100].to_vec(),
        ),
    ]);
    seeds
}

/// State in which a model was used and released, and declarations of a pod.
fn state() -> Value {
    let mut state = State::default();
    let model = model();
    for minute in 0..20 {
        let at_ms = minute * 60_000;
        state.observe(STORE, Event::Loaded { model, at_ms });
        let at_ms = at_ms + 30_000;
        state.observe(STORE, Event::Released { model, at_ms });
    }
    let pod = json!({"namespace": "blue", "name": "server", "uid": "u"});
    json!({
        "version": 1, "store_id": STORE_ID, "state": state, "last_held": {},
        "pods": [[pod, [{"name": "bert"}, {"manifest": "0"}]]],
    })
}
