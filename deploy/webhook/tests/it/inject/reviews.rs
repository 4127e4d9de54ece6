//! Requests of the API server, and answers to them.

use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, Options, Scope};
use tetris_webhook::review::review;

use crate::inject::fixtures::{injected, pod, with};

/// A request as Kubernetes 1.36 sends it.
fn request(pod: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "namespace": "blue", "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller", "uid": "a7e0ab33",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
            },
            "object": pod, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn answer(request: &Value) -> (Value, InjectionOutcome) {
    let review = review(
        request.to_string().as_bytes(),
        Scope::Pod,
        &Options::default(),
    )
    .unwrap();
    assert_eq!(review.body["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(review.body["kind"], "AdmissionReview");
    assert_eq!(review.body.get("request"), None);
    let response = review.body["response"].clone();
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    assert_eq!(response["allowed"], true);
    let warnings = response
        .get("warnings")
        .map_or(0, |warnings| warnings.as_array().unwrap().len());
    assert_eq!(review.warnings, warnings);
    (response, review.outcome)
}

fn error(body: &[u8]) -> String {
    review(body, Scope::Pod, &Options::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_pod_without_a_name_is_allowed_with_a_patch() {
    let (response, outcome) = answer(&request(&pod("deployment")));
    assert_eq!(outcome, InjectionOutcome::Injected);
    assert_eq!(response["patchType"], "JSONPatch");
    let ByteString(patch) = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, injected(&pod("deployment")).patch);
    assert_eq!(response.get("warnings"), None);
}

#[test]
fn warnings_come_with_the_answer() {
    let (response, outcome) = answer(&request(&pod("other-volume")));
    assert_eq!(outcome, InjectionOutcome::Refused);
    assert_eq!(response.get("patch"), None);
    assert!(
        response["warnings"][0]
            .as_str()
            .unwrap()
            .contains("tetris-store")
    );
}

#[test]
fn what_is_not_the_creation_of_a_pod_is_allowed_as_it_is() {
    let good = request(&pod("minimal"));
    for (pointer, value) in [
        ("/request/operation", json!("UPDATE")),
        ("/request/operation", json!("CONNECT")),
        ("/request/subResource", json!("ephemeralcontainers")),
        ("/request/resource/resource", json!("deployments")),
        ("/request/resource/group", json!("example.org")),
        ("/request/object", Value::Null),
    ] {
        let (response, outcome) = answer(&with(good.clone(), pointer, value));
        assert_eq!(outcome, InjectionOutcome::Refused, "{pointer}");
        assert_eq!(response.get("patch"), None);
        assert_eq!(response["warnings"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn what_cannot_be_read_is_told_by_field() {
    let good = request(&pod("minimal"));
    for (pointer, value, expected) in [
        ("/kind", json!("Pod"), "found Pod of"),
        ("/apiVersion", json!("admission.k8s.io/v1beta1"), "v1beta1"),
        ("/request", Value::Null, "`request`"),
        ("/request/uid", json!(7), "expected a string"),
        ("/request/operation", json!("EAT"), "EAT"),
    ] {
        let message = error(with(good.clone(), pointer, value).to_string().as_bytes());
        assert!(message.contains(expected), "{message}");
    }
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\u{0}",
        &format!("{good}{good}"),
        &"[".repeat(100_000),
    ] {
        assert!(
            error(body.as_bytes()).contains("expected"),
            "{}",
            error(body.as_bytes())
        );
    }
}

proptest! {
    #[test]
    fn damaged_requests_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut body = request(&pod("deployment")).to_string().into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        let cut = cut.index(body.len());
        let options = Options::default();
        if let Ok(review) = review(&body, Scope::Pod, &options) {
            prop_assert_eq!(&review.body["response"]["allowed"], true);
        }
        prop_assert!(review(&body[..cut], Scope::Pod, &options).is_err());
    }
}
