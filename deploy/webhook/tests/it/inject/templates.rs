//! Objects with templates of pods.

use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, Options, Scope, inject_templates};

use crate::inject::fixtures::pod;

fn template() -> Value {
    let pod = pod("minimal");
    json!({"metadata": pod["metadata"], "spec": pod["spec"]})
}

#[test]
fn each_kind_has_its_pods_somewhere() {
    let template = template();
    let objects = [
        (pod("minimal"), ""),
        (
            json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2, "template": template}}),
            "/spec/template",
        ),
        (
            json!({"kind": "Job", "spec": {"template": template}}),
            "/spec/template",
        ),
        (
            json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}),
            "/spec/jobTemplate/spec/template",
        ),
        (
            json!({"kind": "PodTemplate", "template": template}),
            "/template",
        ),
    ];
    for (object, place) in objects {
        let templates = inject_templates(object.clone(), Scope::Pod, &Options::default());
        let volumes = templates
            .object
            .pointer(&format!("{place}/spec/volumes"))
            .unwrap();
        assert_eq!(volumes[0]["name"], "tetris-store", "{object}");
        assert_eq!(templates.injections.len(), 1);
    }
}

#[test]
fn a_list_has_many_and_others_have_none() {
    let list =
        json!({"kind": "List", "items": [pod("minimal"), {"kind": "Service"}, pod("complete")]});
    let templates = inject_templates(list, Scope::Pod, &Options::default());
    let outcomes: Vec<_> = templates
        .injections
        .iter()
        .map(|(_, injection)| injection.outcome)
        .collect();
    assert_eq!(
        outcomes,
        [InjectionOutcome::Injected, InjectionOutcome::Complete]
    );
    assert_eq!(templates.injections[0].0, "Pod minimal");
    for none in [
        json!({"kind": "Service"}),
        json!(7),
        json!([]),
        json!({"spec": {"template": 7}}),
    ] {
        let templates = inject_templates(none.clone(), Scope::Pod, &Options::default());
        assert!(templates.injections.is_empty());
        assert_eq!(templates.object, none);
    }
}
