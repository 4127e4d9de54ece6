//! Tests that an API server accepts the definitions.

use serde_json::Value;
use tetris_scaler::resources::{crds, crds_yaml};

/// Checks a structural schema: every node has a type, and no forbidden keyword.
fn check(path: &str, schema: &Value) {
    let free = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let number_or_text = schema["x-kubernetes-int-or-string"] == true;
    assert!(
        schema["type"].is_string() || free || number_or_text,
        "{path}: no type: {schema}"
    );
    for forbidden in [
        "$ref",
        "$schema",
        "definitions",
        "$defs",
        "additionalItems",
        "deprecated",
        "discriminator",
        "id",
        "patternProperties",
        "readOnly",
        "writeOnly",
        "xml",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "uniqueItems",
    ] {
        assert!(schema.get(forbidden).is_none(), "{path}: {forbidden}");
    }
    assert_ne!(schema["additionalProperties"], false, "{path}");
    // Of any other the API server warns when the definitions are applied.
    let format = &schema["format"];
    let is_known = ["int32", "int64", "float", "double", "date-time"].map(|known| format == known);
    assert!(
        format.is_null() || is_known.contains(&true),
        "{path}: {format}"
    );
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(&format!("{path}.{name}"), property);
    }
    if schema["type"] == "array" {
        check(&format!("{path}[]"), &schema["items"]);
    }
    if schema["x-kubernetes-list-type"] == "map" {
        for key in schema["x-kubernetes-list-map-keys"].as_array().unwrap() {
            let required = schema["items"]["required"].as_array().unwrap();
            let property = &schema["items"]["properties"][key.as_str().unwrap()];
            let is_there = required.contains(key) || !property["default"].is_null();
            assert!(is_there, "{path}: {key} is not required and has no default");
        }
    }
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        assert!(rule["message"].is_string(), "{path}: {rule}");
    }
}

fn schema(of: usize) -> Value {
    let crd = serde_json::to_value(&crds()[of]).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

#[test]
fn schemas_are_structural() {
    check("InferenceFunction", &schema(0));
    check("ModelProfile", &schema(1));
}

#[test]
fn rules_and_defaults_are_in_the_schema() {
    let spec = &schema(0)["properties"]["spec"];
    let rule = |value: &Value| {
        value["x-kubernetes-validations"][0]["rule"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(rule(spec), "self.minInstances <= self.maxInstances");
    let properties = &spec["properties"];
    assert_eq!(
        rule(&properties["load"]),
        "(has(self.prometheus) ? 1 : 0) + (has(self.static) ? 1 : 0) + (has(self.gateway) ? 1 : 0) == 1"
    );
    assert_eq!(
        rule(&properties["scaleIn"]),
        "self.keepPercent > self.scaleOutPercent"
    );
    assert_eq!(rule(&properties["scaling"]), "self == oldSelf");
    assert_eq!(properties["slo"]["properties"]["percentile"]["default"], 95);
    assert_eq!(properties["maxInstances"]["default"], 100);
    assert_eq!(
        properties["template"]["x-kubernetes-preserve-unknown-fields"],
        true
    );
    let profile = &schema(1)["properties"]["spec"]["properties"];
    let keys = &profile["configurations"]["x-kubernetes-list-map-keys"];
    assert_eq!(
        *keys,
        serde_json::json!(["cpuMillis", "batch", "concurrency", "gpuType"])
    );
    let rows = &profile["configurations"]["items"];
    assert_eq!(
        rule(rows),
        "has(self.gpu) == (has(self.gpuType) && self.gpuType.size() > 0)"
    );
    assert_eq!(
        profile["gpus"]["x-kubernetes-list-map-keys"],
        serde_json::json!(["type"])
    );
    assert_eq!(profile["objects"]["maxItems"], 8_192);
}

#[test]
fn the_command_prints_all() {
    let text = crds_yaml().unwrap();
    let documents = serde_saphyr::from_multiple::<Value>(&text).unwrap();
    let names: Vec<&Value> = documents
        .iter()
        .map(|document| &document["metadata"]["name"])
        .collect();
    assert_eq!(
        names,
        [
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
            "models.tetris.dev"
        ]
    );
    let columns = documents[0]["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap();
    let columns: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Load", "Instances", "Ready", "Reason", "Age"]);
}
