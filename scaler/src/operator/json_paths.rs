//! Objects and lists at paths of a JSON document, made where they are missing.

use serde_json::{Map, Value, json};

/// Returns the object at `path`, and replaces any other value there.
pub(super) fn object<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut at = value;
    for name in path {
        at = as_object(at).entry(*name).or_insert_with(|| json!({}));
    }
    as_object(at)
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object"),
    }
}

/// Returns the list `name` of the object at `path`, and replaces any other value there.
pub(super) fn list<'a>(value: &'a mut Value, path: &[&str], name: &str) -> &'a mut Vec<Value> {
    let slot = object(value, path).entry(name).or_insert_with(|| json!([]));
    if !slot.is_array() {
        *slot = json!([]);
    }
    match slot {
        Value::Array(list) => list,
        _ => unreachable!("it was made a list"),
    }
}
