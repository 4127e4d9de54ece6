//! The scaler's gate for pods that name their model.

use serde_json::{Value, json};
use tetris_webhook::inject::{Injection, InjectionOutcome, Options, Scope, inject};

fn reviewed(pod: &Value) -> Injection {
    inject(pod, Scope::Placement, &Options::default())
}

fn pod(annotations: &Value, spec: &Value) -> Value {
    json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec})
}

fn gates(pod: &Value) -> Value {
    let injection = reviewed(pod);
    assert_eq!(injection.warnings, Vec::<String>::new());
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    let mut patched = pod.clone();
    json_patch::patch(&mut patched, &injection.patch).unwrap();
    let again = reviewed(&patched);
    assert_eq!(again.outcome, InjectionOutcome::Complete);
    assert!(again.patch.is_empty());
    let gates = patched["spec"]["schedulingGates"].take();
    let mut expected = pod.clone();
    expected["spec"]["schedulingGates"] = Value::Null;
    assert_eq!(patched, expected, "nothing else has changed");
    gates
}

#[test]
fn a_pod_that_names_its_model_gets_the_gate_and_nothing_else() {
    let named = json!({"tetris.dev/profile": "m"});
    let ours = json!({"name": "tetris.dev/placement"});
    let containers = json!([{"name": "main", "image": "server"}]);
    for spec in [
        json!({"containers": containers}),
        json!({"containers": containers, "nodeName": "", "schedulingGates": null}),
        json!({"containers": containers, "schedulingGates": []}),
    ] {
        assert_eq!(gates(&pod(&named, &spec)), json!([ours]));
    }
    let spec = json!({"schedulingGates": [{"name": "example.com/other"}]});
    let both = json!([{"name": "example.com/other"}, ours]);
    assert_eq!(gates(&pod(&named, &spec)), both);
}

#[test]
fn other_pods_get_none() {
    let named = json!({"tetris.dev/profile": "m"});
    let with_gate = json!({"schedulingGates": [{"name": "tetris.dev/placement"}]});
    for (pod, outcome) in [
        (pod(&Value::Null, &json!({})), InjectionOutcome::NotAsked),
        (pod(&json!({}), &json!({})), InjectionOutcome::NotAsked),
        // The API server would refuse both together.
        (
            pod(&named, &json!({"nodeName": "n"})),
            InjectionOutcome::Complete,
        ),
        (pod(&named, &with_gate), InjectionOutcome::Complete),
    ] {
        let injection = reviewed(&pod);
        assert_eq!(injection.outcome, outcome, "{pod}");
        assert!(injection.patch.is_empty() && injection.warnings.is_empty());
    }
    // Its label does not matter here, and the annotation does not for the volume.
    let mut labeled = pod(&named, &json!({"containers": []}));
    labeled["metadata"]["labels"] = json!({"tetris.dev/inject": "false"});
    assert_eq!(reviewed(&labeled).outcome, InjectionOutcome::Injected);
    let volume = inject(&labeled, Scope::Pod, &Options::default());
    assert_eq!(volume.outcome, InjectionOutcome::NotAsked);
}

#[test]
fn what_cannot_be_read_gets_no_gate_and_a_warning() {
    let long = "x".repeat(254);
    let named = json!({"tetris.dev/profile": "m"});
    for (pod, said) in [
        (
            pod(&json!({"tetris.dev/profile": ""}), &json!({})),
            "found \"\"",
        ),
        (
            pod(&json!({"tetris.dev/profile": long}), &json!({})),
            "expected the name of a ModelProfile",
        ),
        (
            pod(&json!({"tetris.dev/profile": 7}), &json!({})),
            "expected the name of a ModelProfile",
        ),
        (
            pod(&named, &json!({"schedulingGates": "x"})),
            "expected a list",
        ),
        (
            json!({"metadata": {"annotations": named}}),
            "expected a list",
        ),
        (pod(&named, &json!([])), "expected a list"),
    ] {
        let injection = reviewed(&pod);
        assert_eq!(injection.outcome, InjectionOutcome::Refused, "{pod}");
        assert!(injection.patch.is_empty());
        assert!(
            injection.warnings[0].contains(said),
            "{:?}",
            injection.warnings
        );
        assert!(injection.warnings[0].chars().count() <= 256);
    }
}
