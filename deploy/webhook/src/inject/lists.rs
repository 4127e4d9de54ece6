//! Lists in a pod: absent, null or there; and additions to them.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

/// The items of a list that may be absent or null; none when it is something else.
pub(super) fn items<'a>(object: &'a Value, field: &str) -> Option<&'a [Value]> {
    match object.get(field) {
        None | Some(Value::Null) => Some(&[]),
        Some(Value::Array(items)) => Some(items),
        Some(_) => None,
    }
}

/// A text field of an item.
pub(super) fn text<'a>(item: &'a Value, field: &str) -> Option<&'a str> {
    item.get(field).and_then(Value::as_str)
}

/// A boolean field of an item, which is false when absent.
pub(super) fn flag(item: &Value, field: &str) -> bool {
    item.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// Operations that append `additions` to the list `field` of `object`, which is at `path`.
pub(super) fn append(
    object: &Value,
    path: &[&str],
    field: &str,
    additions: Vec<Value>,
) -> Vec<PatchOperation> {
    let tokens = || path.iter().copied().chain([field]);
    if additions.is_empty() {
        return Vec::new();
    }
    if object.get(field).is_none_or(Value::is_null) {
        return vec![add(PointerBuf::from_tokens(tokens()), additions.into())];
    }
    let appended = additions.into_iter();
    appended
        .map(|value| add(PointerBuf::from_tokens(tokens().chain(["-"])), value))
        .collect()
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}
