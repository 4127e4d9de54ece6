//! The page of custom resources, docs/reference/resources.md, which is written from their schemas.

use std::fmt::Write as _;

use serde_json::Value;
use tetris_scaler::resources::crds;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/reference/resources.md"
);
const HEAD: &str = "# Custom resources

<!-- Written from their schemas by the scaler's tests with UPDATE_GOLDEN=1 -->

Fields of the group `tetris.dev`, as `kubectl explain` shows them. [The scaler](../../scaler/README.md#operator-resources)
says how they are used. A field in **bold** is required.
";

#[test]
fn the_page_of_resources_has_every_field() {
    let mut expected = HEAD.to_owned();
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let version = &crd["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let name = version["name"].as_str().unwrap();
        write!(
            expected,
            "\n## {kind}\n\n`tetris.dev/{name}`. {}\n",
            text(schema)
        )
        .unwrap();
        for part in ["spec", "status"] {
            let schema = &schema["properties"][part];
            if schema.is_object() {
                let head = "| field | type | meaning |\n| --- | --- | --- |";
                write!(expected, "\n### {kind}: {part}\n\n{head}\n").unwrap();
                rows(schema, "", &mut expected);
            }
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, expected).unwrap();
        return;
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        page, expected,
        "docs/reference/resources.md differs from the schemas; UPDATE_GOLDEN=1 writes it"
    );
}

/// Adds a row for each field of an object, and for those below it.
fn rows(schema: &Value, prefix: &str, page: &mut String) {
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|list| list.iter().any(|entry| entry == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let shown = if is_required(name) {
            format!("**`{path}`**")
        } else {
            format!("`{path}`")
        };
        let (inner, step) = match kind(field) {
            "array" => (&field["items"], "[]."),
            "object" if field["additionalProperties"].is_object() => {
                (&field["additionalProperties"], ".NAME.")
            }
            _ => (field, "."),
        };
        writeln!(page, "| {shown} | {} | {} |", type_of(field), text(field)).unwrap();
        rows(inner, &format!("{path}{step}"), page);
    }
}

fn kind(field: &Value) -> &str {
    field["type"].as_str().unwrap_or("any")
}

/// Type, range, choices and default of a field.
fn type_of(field: &Value) -> String {
    let mut text = match kind(field) {
        "array" => format!("array of {}", kind(&field["items"])),
        other => other.to_owned(),
    };
    if let Some(choices) = field["enum"].as_array() {
        let quoted: Vec<String> = choices
            .iter()
            .map(|choice| format!("`{}`", plain(choice)))
            .collect();
        text = quoted.join(", ");
    }
    let range = match (&field["minimum"], &field["maximum"]) {
        (Value::Null, Value::Null) => String::new(),
        (least, Value::Null) => format!(", at least {}", plain(least)),
        (Value::Null, most) => format!(", at most {}", plain(most)),
        (least, most) => format!(", {} to {}", plain(least), plain(most)),
    };
    text += &range;
    // An object's fields have their own defaults.
    if !field["default"].is_null() && !field["default"].is_object() {
        write!(text, "; default `{}`", plain(&field["default"])).unwrap();
    }
    text
}

/// A number without a fraction that is zero; a text without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        other => other.to_string(),
    }
}

/// The description of a field, in one line.
fn text(field: &Value) -> String {
    let described = field["description"].as_str().unwrap_or_default();
    described
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
