//! The committed seeds of the target `admission_review`: requests with pods as they come, pods
//! alone, and bytes that are neither.

use serde_json::{Value, json};

use crate::admission_review::{NAMESPACE, PLACEMENT, POD, request};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let labels = json!({"tetris.dev/inject": "true"});
    let asks = |mut pod: Value| {
        pod["metadata"]["labels"] = labels.clone();
        pod
    };
    let plain = || json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
    let wishes = json!({
        "metadata": {"name": "p", "annotations": {
            "tetris.dev/patch": "files", "tetris.dev/containers": "b,a", "tetris.dev/store": "shared"}},
        "spec": {
            "initContainers": [{"name": "b", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "image": "i", "env": [{"name": "OTHER", "value": "x"}],
                "volumeMounts": [{"name": "w", "mountPath": "/data", "readOnly": true}]}],
            "volumes": [{"name": "w", "emptyDir": {}}],
        },
    });
    let taken = json!({
        "spec": {
            "containers": [{"name": "a", "env": null,
                "volumeMounts": [{"name": "tetris-store", "mountPath": "/run/tetris/store/"}]}],
            "volumes": [{"name": "tetris-store", "hostPath": {"path": "/"}}],
        },
    });
    let nulls = json!({"spec": {"containers": null, "volumes": null, "initContainers": null}});
    let named_store = json!({
        "spec": {
            "containers": [{"name": "a"}],
            "volumes": [{"name": "x", "csi": {"driver": "csi.tetris.dev", "readOnly": true}}],
        },
    });
    let named = json!({
        "metadata": {"name": "p", "annotations": {"tetris.dev/profile": "m"}},
        "spec": {"containers": [{"name": "a"}], "schedulingGates": [{"name": "example.com/other"}]},
    });
    let mut other = request(&asks(plain()));
    other["request"]["operation"] = json!("UPDATE");
    let mut version = request(&asks(plain()));
    version["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let mut no_request = request(&asks(plain()));
    no_request["request"] = Value::Null;
    let mut number = request(&asks(plain()));
    number["request"]["uid"] = json!(7);
    let of = |scope, request: &Value| [&[scope], request.to_string().as_bytes()].concat();
    vec![
        ("valid-labeled", of(POD, &request(&asks(plain())))),
        ("valid-namespace", of(NAMESPACE, &request(&plain()))),
        ("valid-placement", of(PLACEMENT, &request(&named))),
        ("valid-not-asked", of(POD, &request(&plain()))),
        ("valid-wishes", of(POD, &request(&asks(wishes.clone())))),
        ("valid-name-taken", of(POD, &request(&asks(taken)))),
        ("valid-nulls", of(POD, &request(&asks(nulls)))),
        ("valid-own-volume", of(POD, &request(&asks(named_store)))),
        ("valid-no-pod", of(POD, &request(&Value::Null))),
        (
            "valid-not-an-object",
            of(POD, &request(&json!({"spec": []}))),
        ),
        ("valid-update", of(POD, &other)),
        ("skipped-is-no-text", skipped(&request(&asks(plain())))),
        ("hostile-pod-alone", of(POD, &asks(wishes))),
        ("hostile-version", of(POD, &version)),
        ("hostile-no-request", of(POD, &no_request)),
        ("hostile-number", of(POD, &number)),
        ("hostile-no-bytes", Vec::new()),
        (
            "hostile-nested",
            [&[POD], b"[".repeat(300).as_slice()].concat(),
        ),
        (
            "hostile-trailing",
            [of(POD, &request(&plain())), b"{}".to_vec()].concat(),
        ),
    ]
}

/// A request with a field that no one asks for, whose text is no UTF-8.
fn skipped(request: &Value) -> Vec<u8> {
    let request = request.to_string();
    let (before, after) = request.split_once("\"request\":{").expect("a request");
    let field = b"\"request\":{\"skipped\":\"\x97\",";
    [&[POD], before.as_bytes(), field, after.as_bytes()].concat()
}
