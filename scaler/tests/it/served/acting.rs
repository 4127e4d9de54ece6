//! Tests that plans are executed in order, and only by the leader.

use std::sync::Arc;

use http::Method;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tetris_scaler::lease::Leadership;
use tetris_scaler::metrics::Metrics;
use tetris_scaler::operator::apply::Applier;
use tetris_scaler::operator::health::Failing;
use tetris_scaler::operator::plan::{Action, FunctionPlan, Plan};
use tetris_scaler::operator::records::FunctionRecord;
use tetris_scaler::resources::{Condition, InferenceFunctionStatus};
use tetris_scaler::state::{Key, Snapshot, published};

use crate::served::api::Api;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/blue/deployments/f-c1-b1-p1";
const POD: &str = "/api/v1/namespaces/blue/pods/one";
const STATUS: &str = "/apis/tetris.dev/v1alpha1/namespaces/blue/inferencefunctions/f";

fn plan(actions: Vec<Action>) -> Plan {
    let object = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": "f", "namespace": "blue", "uid": "u", "generation": 3},
        "status": {"conditions": [{
            "type": "Progressing", "status": "True", "reason": "ScaledOut", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Plan {
        functions: vec![FunctionPlan {
            record: Arc::new(FunctionRecord::read(object)),
            actions,
            state: None,
            failing: Failing::default(),
        }],
        snapshot: Snapshot::default(),
    }
}

fn applier(api: &Api, leadership: Leadership) -> Applier {
    let (_, snapshots) = published();
    Applier::new(api.client(), leadership, Arc::new(Metrics::new(snapshots)))
}

fn key() -> Key {
    Key::new("blue", "f-c1-b1-p1")
}

fn apply(is_present: bool, version: Option<&str>) -> Action {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "f-c1-b1-p1", "labels": {"tetris.dev/function": "f"}},
        "spec": {"replicas": 2},
    });
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = version.into();
    }
    Action::Apply {
        key: key(),
        is_present,
        object,
    }
}

#[tokio::test]
async fn everything_is_done_in_order_as_planned() {
    let api = Api::default();
    let pod = json!({"metadata": {"name": "one", "annotations": {"tetris.dev/retiring": "true"}}});
    api.with(|state| state.store(POD, pod));
    api.with(|state| state.store(STATUS, json!({"metadata": {"name": "f"}})));
    let status = InferenceFunctionStatus {
        conditions: vec![Condition::default()],
        load: Some("5".to_owned()),
        ..InferenceFunctionStatus::default()
    };
    let actions = vec![
        Action::Mark {
            pod: Key::new("blue", "one"),
            retiring: Some(false),
            cost: Some(-100),
        },
        apply(false, None),
        Action::Event {
            is_warning: false,
            reason: "ScaledOut".to_owned(),
            note: "2 instances".to_owned(),
        },
        Action::Status(Box::new(status)),
    ];
    assert_eq!(
        applier(&api, Leadership::alone())
            .carry_out(&plan(actions))
            .await,
        0
    );
    let asked = api.with(|state| std::mem::take(&mut state.asked));
    let writes: Vec<_> = asked
        .iter()
        .filter(|entry| entry.0 != Method::GET)
        .collect();
    assert!(writes[0].1.starts_with(POD), "{writes:?}");
    assert!(writes[1].1.starts_with(DEPLOYMENT) && writes[1].1.contains("force=true"));
    assert!(writes[1].1.contains("fieldManager=tetris-scaler"));
    assert!(
        writes[2]
            .1
            .starts_with("/apis/events.k8s.io/v1/namespaces/blue/events")
    );
    assert_eq!(writes[2].2["regarding"]["uid"], "u");
    assert!(writes[3].1.starts_with(&format!("{STATUS}/status")));
    api.with(|state| {
        let annotations = &state.objects[POD]["metadata"]["annotations"];
        assert_eq!(
            *annotations,
            json!({"controller.kubernetes.io/pod-deletion-cost": "-100"})
        );
        assert_eq!(state.objects[DEPLOYMENT]["spec"]["replicas"], 2);
        assert_eq!(state.objects[STATUS]["status"]["load"], "5");
    });
}

#[tokio::test]
async fn who_does_not_lead_writes_nothing() {
    let api = Api::default();
    let mut applier = applier(&api, Leadership::default());
    assert_eq!(applier.carry_out(&plan(vec![apply(false, None)])).await, 0);
    api.with(|state| assert!(state.asked.is_empty()));
}

#[tokio::test]
async fn what_was_written_meanwhile_is_not_overwritten() {
    let api = Api::default();
    let theirs = json!({"metadata": {"name": "f-c1-b1-p1"}, "spec": {"replicas": 7}});
    api.with(|state| state.store(DEPLOYMENT, theirs));
    let mut applier = applier(&api, Leadership::alone());
    let old = |action| plan(vec![action]);
    assert_eq!(applier.carry_out(&old(apply(true, Some("0")))).await, 0);
    let scale = Action::Scale {
        key: key(),
        version: "0".to_owned(),
        replicas: 1,
    };
    assert_eq!(applier.carry_out(&old(scale)).await, 0);
    api.with(|state| assert_eq!(state.objects[DEPLOYMENT]["spec"]["replicas"], 7));
    let delete = Action::Delete {
        key: key(),
        uid: "uid".to_owned(),
        version: "5".to_owned(),
    };
    assert_eq!(applier.carry_out(&old(delete)).await, 0);
    let body = api.with(|state| state.asked.last().unwrap().2.clone());
    assert_eq!(
        body["preconditions"],
        json!({"uid": "uid", "resourceVersion": "5"})
    );
}

#[tokio::test]
async fn a_deployment_of_somebody_else_is_left_alone_and_reported() {
    let api = Api::default();
    let theirs = json!({"metadata": {"name": "f-c1-b1-p1", "labels": {"app": "x"}}});
    api.with(|state| state.store(DEPLOYMENT, theirs.clone()));
    api.with(|state| state.store(STATUS, json!({"metadata": {"name": "f"}})));
    let mut applier = applier(&api, Leadership::alone());
    assert_eq!(applier.carry_out(&plan(vec![apply(false, None)])).await, 1);
    api.with(|state| {
        assert_eq!(
            state.objects[DEPLOYMENT]["metadata"]["labels"],
            theirs["metadata"]["labels"]
        );
        let condition: &Value = &state.objects[STATUS]["status"]["conditions"][0];
        assert_eq!(condition["reason"], "WriteFailed");
        assert!(
            condition["message"]
                .as_str()
                .unwrap()
                .contains("blue/f-c1-b1-p1")
        );
        state.asked.clear();
    });
    // It waits before the next attempt.
    assert_eq!(applier.carry_out(&plan(vec![apply(false, None)])).await, 0);
    api.with(|state| assert!(state.asked.is_empty()));
}

#[tokio::test]
async fn a_deployment_with_the_labels_of_the_function_and_another_owner_is_left_alone() {
    let api = Api::default();
    for owners in [
        json!([]),
        json!([{"uid": "of-one-before", "kind": "InferenceFunction"}]),
    ] {
        let theirs = json!({"metadata": {
            "name": "f-c1-b1-p1", "labels": {"tetris.dev/function": "f"}, "ownerReferences": owners,
        }});
        api.with(|state| state.store(DEPLOYMENT, theirs));
        api.with(|state| state.store(STATUS, json!({"metadata": {"name": "f"}})));
        let mut applier = applier(&api, Leadership::alone());
        assert_eq!(applier.carry_out(&plan(vec![apply(false, None)])).await, 1);
        api.with(|state| {
            assert_eq!(
                state.objects[DEPLOYMENT]["metadata"]["ownerReferences"],
                owners
            );
            let condition = &state.objects[STATUS]["status"]["conditions"][0];
            let message = condition["message"].as_str().unwrap();
            assert!(
                message.contains("is not owned by this function"),
                "{message}"
            );
        });
    }
}

#[tokio::test]
async fn an_error_ends_what_follows_it() {
    let api = Api::default();
    api.with(|state| state.fails_with = Some(403));
    let mut applier = applier(&api, Leadership::alone());
    let actions = vec![apply(true, Some("1")), apply(true, Some("1"))];
    assert_eq!(applier.carry_out(&plan(actions)).await, 1);
    let applies = api.with(|state| {
        state
            .asked
            .iter()
            .filter(|entry| entry.1.starts_with(DEPLOYMENT))
            .count()
    });
    assert_eq!(applies, 1);
}
