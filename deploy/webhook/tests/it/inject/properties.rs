//! Properties that hold for every pod, and for values that are no pod.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tetris_webhook::inject::{Injection, InjectionOutcome, Options, Scope, inject};

use crate::inject::fixtures::{PODS, patched, pod};

const PATHS: [&str; 9] = [
    "/run/tetris/store",
    "/run/tetris/store/",
    "/run/tetris/store/a",
    "/run/tetris/python",
    "/run/tetris",
    "/run",
    "/",
    "/data",
    "relative",
];

fn volumes() -> impl Strategy<Value = Value> {
    let name = select(vec!["tetris-store", "tetris-python", "weights", "run"]);
    let source = select(vec![
        json!({"csi": {"driver": "csi.tetris.dev", "readOnly": true}}),
        json!({"csi": {"driver": "csi.tetris.dev", "volumeAttributes": {"store": "a"}}}),
        json!({"csi": {"driver": "csi.tetris.dev", "volumeAttributes": {"content": "python"}}}),
        json!({"csi": {"driver": "csi.tetris.dev", "volumeAttributes": {"content": "model", "model": "m"}}}),
        json!({"csi": {"driver": "other.example.org"}}),
        json!({"emptyDir": {}}),
        json!({"configMap": {"name": "c"}}),
        json!({}),
    ]);
    let volume = (name, source).prop_map(|(name, mut volume)| {
        volume["name"] = json!(name);
        volume
    });
    list(volume, 3)
}

fn containers() -> impl Strategy<Value = Value> {
    let names = || select(vec!["tetris-store", "tetris-python", "weights", "gone"]);
    let mount = (
        names(),
        select(PATHS.to_vec()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(name, path, read_only, part)| {
            let part = if part { "sub" } else { "" };
            json!({"name": name, "mountPath": path, "readOnly": read_only, "subPath": part})
        });
    let variable = select(vec!["TETRIS_STORE", "TETRIS_PATCH", "PYTHONPATH", "OTHER"]);
    let value = select(vec!["own", "", "/run/tetris/python:/app"]);
    let env = (variable, value).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let from = select(vec![Value::Null, json!([]), json!([{"secretRef": {}}])]);
    let container = (
        select(vec!["a", "b", "c"]),
        list(mount, 2),
        list(env, 2),
        from,
    );
    let container = container.prop_map(|(name, mounts, env, from)| {
        json!({"name": name, "image": "i", "volumeMounts": mounts, "env": env, "envFrom": from})
    });
    list(container, 3)
}

/// A list; sometimes null.
fn list(item: impl Strategy<Value = Value>, max: usize) -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        4 => prop::collection::vec(item, 0..=max).prop_map(Value::from),
    ]
}

fn pods() -> impl Strategy<Value = Value> {
    let patch = select(vec![
        json!("true"),
        json!("false"),
        json!("files"),
        json!("?"),
        json!(7),
        Value::Null,
    ]);
    let chosen = select(vec![
        Value::Null,
        json!("a"),
        json!("b,a"),
        json!("z"),
        json!(""),
    ]);
    let store = select(vec![Value::Null, json!("a"), json!("/"), json!([])]);
    let label = select(vec!["true", "python"]);
    let template = select(vec![
        Value::Null,
        json!("true"),
        json!("2s"),
        json!("2"),
        json!(2),
    ]);
    let wishes = (label, patch, template, chosen, store);
    (volumes(), containers(), containers(), wishes).prop_map(
        |(volumes, init, containers, (label, patch, template, chosen, store))| {
            json!({
                "metadata": {"labels": {"tetris.dev/inject": label}, "annotations": {
                    "tetris.dev/patch": patch, "tetris.dev/containers": chosen, "tetris.dev/store": store, "tetris.dev/gpu-template": template}},
                "spec": {"volumes": volumes, "initContainers": init, "containers": containers, "priority": 0},
            })
        },
    )
}

/// Any JSON, with names that mean something.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        select(vec![
            "true",
            "python",
            "tetris-store",
            "/run/tetris/store",
            "csi.tetris.dev",
            "\u{0}\u{e9}"
        ])
        .prop_map(Value::from),
    ];
    let key = select(vec![
        "metadata",
        "labels",
        "annotations",
        "tetris.dev/inject",
        "tetris.dev/patch",
        "tetris.dev/containers",
        "tetris.dev/gpu-template",
        "spec",
        "volumes",
        "containers",
        "initContainers",
        "name",
        "csi",
        "driver",
        "volumeMounts",
        "mountPath",
        "env",
        "os",
        "volumeDevices",
    ]);
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn kserve_volume() -> Value {
    json!({"name": "kserve-provision-location", "emptyDir": {}})
}

/// Returns true if the user's fields are unchanged: `after` has all of `before`, and lists only grow at their end.
fn contains(before: &Value, after: &Value, path: &str) {
    match (before, after) {
        // The one volume to be replaced.
        (Value::Object(_), Value::Object(_)) if before == &kserve_volume() && before != after => {
            assert_eq!(
                after["csi"]["volumeAttributes"]["content"], "model",
                "{path}"
            );
        }
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                contains(value, &after[key], &format!("{path}/{key}"));
            }
            let grown = |key: &&String| !before.contains_key(*key);
            for key in after.keys().filter(grown) {
                assert!(
                    ["volumes", "volumeMounts", "env"].contains(&key.as_str()),
                    "{path}/{key}"
                );
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let may_grow = ["/volumes", "/volumeMounts", "/env"]
                .iter()
                .any(|end| path.ends_with(end));
            assert!(
                after.len() == before.len() || may_grow && after.len() > before.len(),
                "{path}"
            );
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                contains(before, after, &format!("{path}/{index}"));
            }
        }
        (Value::Null, Value::Array(_)) => {}
        _ => assert_eq!(before, after, "{path}"),
    }
}

/// No name and no path is there twice that was not before.
fn adds_no_duplicates(before: &Value, after: &Value) {
    let taken = |pod: &Value, list: &str, field: &str| -> Vec<Vec<String>> {
        let lists = ["containers", "initContainers"]
            .iter()
            .filter_map(|of| pod["spec"][*of].as_array().cloned());
        let values = |items: &Value| {
            let items = items.as_array().cloned().unwrap_or_default();
            items
                .iter()
                .map(|item| item[field].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        lists
            .flatten()
            .map(|container| values(&container[list]))
            .collect()
    };
    for (list, field) in [("volumeMounts", "mountPath"), ("env", "name")] {
        for (before, after) in taken(before, list, field)
            .iter()
            .zip(taken(after, list, field))
        {
            // A second one refers to the first, and both are meant.
            let added = after[before.len()..]
                .iter()
                .filter(|name| *name != "PYTHONPATH");
            for added in added {
                assert_eq!(
                    after.iter().filter(|found| *found == added).count(),
                    1,
                    "{after:?}"
                );
            }
        }
    }
}

/// Applies it once, checks it, and applies it again.
fn check(pod: &Value, scope: Scope) -> Injection {
    let options = Options::default();
    let first = inject(pod, scope, &options);
    assert_eq!(
        first.patch.is_empty(),
        first.outcome != InjectionOutcome::Injected
    );
    let after = patched(pod, &first);
    contains(pod, &after, "");
    adds_no_duplicates(pod, &after);
    let second = inject(&after, scope, &options);
    assert!(second.patch.is_empty(), "{:?}", second.patch);
    if first.outcome == InjectionOutcome::Injected {
        assert_eq!(second.outcome, InjectionOutcome::Complete);
    } else {
        assert_eq!(second, first);
    }
    first
}

#[test]
fn twice_is_once_and_nothing_else_changes_in_pods_as_they_come() {
    for (name, _) in PODS {
        for scope in [
            Scope::Pod,
            Scope::Namespace,
            Scope::PythonNamespace,
            Scope::Placement,
        ] {
            check(&pod(name), scope);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn twice_is_once_and_nothing_else_changes(pod in pods()) {
        check(&pod, Scope::Pod);
        check(&pod, Scope::Placement);
    }

    #[test]
    fn what_is_no_pod_is_left_as_it_is_or_patched_as_one(object in json()) {
        check(&object, Scope::Namespace);
        check(&object, Scope::PythonNamespace);
        check(&object, Scope::Placement);
    }
}
