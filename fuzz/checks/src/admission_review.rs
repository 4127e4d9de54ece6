//! Conditions on any bytes taken for a request of the API server. Shared by the fuzz target
//! and the tests of the webhook.

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, MAX_WARNINGS, Options, Scope, WARNING_CHARS};
use tetris_webhook::review::review;

/// First byte of an input: pods that are labeled themselves, those of a labeled namespace, or those that name their model.
pub const POD: u8 = 0;
pub const NAMESPACE: u8 = 1;
pub const PLACEMENT: u8 = 2;

/// Answers a request. Returns the outcome for its pod, or the reason there is no answer.
///
/// # Panics
///
/// If the answer forbids anything, its patch does not fit the pod, does more than add, or adds
/// something again when it was applied.
pub fn check(input: &[u8]) -> Result<InjectionOutcome, String> {
    let Some((scope, body)) = input.split_first() else {
        return Err("no scope".to_owned());
    };
    let scope = match scope % 3 {
        NAMESPACE => Scope::Namespace,
        PLACEMENT => Scope::Placement,
        _ => Scope::Pod,
    };
    let options = Options::default();
    let answered = review(body, scope, &options).map_err(|error| error.to_string())?;
    let response = &answered.body["response"];
    assert_eq!(response["allowed"], true);
    let warnings = response["warnings"].as_array().cloned().unwrap_or_default();
    assert!(warnings.len() == answered.warnings && warnings.len() <= MAX_WARNINGS);
    for warning in &warnings {
        let warning = warning.as_str().expect("a text");
        assert!(warning.chars().count() <= WARNING_CHARS, "{warning}");
    }
    let injected = answered.outcome == InjectionOutcome::Injected;
    assert_eq!(response.get("patch").is_some(), injected);
    // Fields that no one asks for are skipped, and need not be values: numbers without end, text that is no UTF-8.
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return Ok(answered.outcome);
    };
    assert_eq!(response["uid"], request["request"]["uid"]);
    if injected {
        let again = applied(request, &response["patch"]);
        let again = review(&again, scope, &options).expect("the same request, with a pod");
        assert_eq!(again.outcome, InjectionOutcome::Complete);
        assert_eq!(again.body["response"].get("patch"), None);
    }
    Ok(answered.outcome)
}

/// The request with the patch applied to its pod, which only adds.
fn applied(mut request: Value, patch: &Value) -> Vec<u8> {
    let ByteString(patch) = serde_json::from_value(patch.clone()).expect("base64");
    let operations: Value = serde_json::from_slice(&patch).expect("JSON");
    for operation in operations.as_array().expect("a list") {
        assert_eq!(operation["op"], "add");
    }
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a JSON patch");
    let pod = &mut request["request"]["object"];
    json_patch::patch(pod, &patch).expect("the patch fits the pod");
    request.to_string().into_bytes()
}

/// The request that creates the pod `input`, after the byte of the scope.
pub fn of_pod(input: &[u8]) -> Vec<u8> {
    let Some((scope, pod)) = input.split_first() else {
        return Vec::new();
    };
    match serde_json::from_slice(pod) {
        Ok(pod) => [&[*scope], request(&pod).to_string().as_bytes()].concat(),
        Err(_) => input.to_vec(),
    }
}

/// A request as Kubernetes 1.36 sends it.
pub fn request(pod: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "namespace": "blue", "operation": "CREATE", "userInfo": {"username": "u"},
            "object": pod, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}
