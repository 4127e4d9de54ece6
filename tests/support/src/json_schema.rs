//! docs/schema.json, checked against documents by the part of JSON Schema that it uses.

use std::sync::LazyLock;

use serde_json::Value;

// Within the program: the tests also run in machines that have no documents.
static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../docs/schema.json")).unwrap());

/// Panics if the document is none of those that the schema describes.
#[track_caller]
pub fn assert_fits(document: &Value) {
    let alternatives = SCHEMA["anyOf"].as_array().unwrap();
    let misfits: Vec<String> = alternatives
        .iter()
        .filter_map(|schema| Some(format!("{}: {}", schema["$ref"], misfit(document, schema)?)))
        .collect();
    assert!(
        misfits.len() < alternatives.len(),
        "docs/schema.json does not describe {document}\n{}",
        misfits.join("\n")
    );
}

/// The first rule of `schema` that `value` breaks.
fn misfit(value: &Value, schema: &Value) -> Option<String> {
    for (keyword, rule) in schema.as_object().unwrap() {
        let broken = match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                misfit(value, SCHEMA.pointer(pointer).expect("the definition"))
            }
            "type" => wrong_type(value, rule),
            "const" => (value != rule).then(|| format!("{value} is not {rule}")),
            "minimum" => out_of_range(value, rule, |found, least| found < least),
            "maximum" => out_of_range(value, rule, |found, most| found > most),
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .find(|name| value.is_object() && value.get(name.as_str().unwrap()).is_none())
                .map(|name| format!("{name} is missing")),
            "properties" => rule.as_object().unwrap().iter().find_map(|(name, schema)| {
                let misfit = misfit(value.get(name)?, schema)?;
                Some(format!("{name}: {misfit}"))
            }),
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .find_map(|entry| misfit(entry, rule)),
            "title" => None,
            other => panic!("keyword {other} is not checked here"),
        };
        if broken.is_some() {
            return broken;
        }
    }
    None
}

fn wrong_type(value: &Value, rule: &Value) -> Option<String> {
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("type {other}"),
    };
    let fits = match rule {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    (!fits).then(|| format!("{value} is no {rule}"))
}

fn out_of_range(value: &Value, rule: &Value, outside: fn(f64, f64) -> bool) -> Option<String> {
    let (found, limit) = (value.as_f64()?, rule.as_f64()?);
    outside(found, limit).then(|| format!("{found} is out of range, limit {limit}"))
}
