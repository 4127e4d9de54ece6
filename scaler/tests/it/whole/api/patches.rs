//! Patches of objects.

use serde_json::{Map, Value, json};

/// Applies a JSON merge patch, RFC 7386.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    let map = map(into);
    for (name, value) in patch {
        if value.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Applies a server-side apply: removes fields that the manager applied `before` but not `now`.
/// Lists are atomic.
pub fn apply(into: &mut Value, before: &Value, now: &Value) {
    let Value::Object(now) = now else {
        *into = now.clone();
        return;
    };
    let map = map(into);
    for (name, old) in before.as_object().into_iter().flatten() {
        if !now.contains_key(name) {
            forget(map, name, old);
        }
    }
    for (name, value) in now {
        let before = before.get(name).unwrap_or(&Value::Null);
        apply(map.entry(name).or_insert(Value::Null), before, value);
    }
}

fn forget(map: &mut Map<String, Value>, name: &str, old: &Value) {
    if let (Some(Value::Object(inner)), Value::Object(old)) = (map.get_mut(name), old) {
        for (name, old) in old {
            forget(inner, name, old);
        }
        // Other managers may have fields in it.
        if !inner.is_empty() {
            return;
        }
    }
    map.remove(name);
}

fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap()
}

#[test]
fn what_is_applied_no_more_goes_and_what_others_wrote_stays() {
    let mut object = json!({"spec": {"a": 1, "theirs": 2, "list": [1]}, "status": {"x": 1}});
    let before = json!({"spec": {"a": 1, "list": [1]}, "metadata": {"b": 1}});
    apply(&mut object, &before, &json!({"spec": {"list": [2]}}));
    assert_eq!(
        object,
        json!({"spec": {"theirs": 2, "list": [2]}, "status": {"x": 1}})
    );
    merge(
        &mut object,
        &json!({"spec": {"list": null, "new": {"deep": 1}}}),
    );
    assert_eq!(object["spec"], json!({"theirs": 2, "new": {"deep": 1}}));
}
