//! Tests of conditions and events.

use serde_json::{Value, json};
use tetris_scaler::operator::plan::Action;
use tetris_scaler::resources::InferenceFunctionStatus;
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, profile};

fn status(world: &mut World) -> (InferenceFunctionStatus, Vec<String>) {
    let plan = world.plan();
    let actions = &plan.functions[0].actions;
    let events = actions.iter().filter_map(|action| match action {
        Action::Event { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let events = events.collect();
    let status = actions.iter().find_map(|action| match action {
        Action::Status(status) => Some((**status).clone()),
        _ => None,
    });
    (status.unwrap(), events)
}

fn said(status: &InferenceFunctionStatus, what: &str) -> (String, String) {
    let mut conditions = status.conditions.iter();
    let condition = conditions
        .find(|condition| condition.r#type == what)
        .unwrap();
    (condition.status.clone(), condition.reason.clone())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn edited(path: &str, value: &Value) -> Value {
    let mut function = function("f", "m");
    let (parent, key) = path.rsplit_once('/').unwrap();
    function.pointer_mut(parent).unwrap()[key] = value.clone();
    function
}

#[test]
fn what_is_wrong_is_a_condition_and_an_event() {
    let limits = json!({"limits": {"memory": "1Mi"}});
    let cases = [
        (
            "/spec/slo/latencyMillis",
            json!(0),
            "InvalidField",
            "spec.slo.latencyMillis",
        ),
        (
            "/spec/profile",
            json!("none"),
            "ProfileNotFound",
            "spec.profile",
        ),
        (
            "/spec/configurations",
            json!(["c1-b1-p1"]),
            "InvalidField",
            "spec.configurations[0]",
        ),
        ("/spec/slo/latencyMillis", json!(10), "SloTooTight", "50000"),
        (
            "/spec/template/spec/containers/0/resources",
            limits,
            "InvalidField",
            "spec.template.spec.containers[0].resources.limits.memory",
        ),
    ];
    for (path, value, reason, names) in cases {
        let mut world = World::new(&[edited(path, &value)], &[profile("m")], 2);
        world.loads.insert(Key::new(NAMESPACE, "f"), 90_000);
        let (status, events) = status(&mut world);
        assert_eq!(said(&status, "Ready"), pair("False", reason), "{path}");
        assert!(
            status.message.as_ref().unwrap().contains(names),
            "{status:?}"
        );
        assert!(events.contains(&reason.to_owned()), "{path}: {events:?}");
        // It is reported only once.
        world.pass();
        world.see();
        let again = world.plan();
        assert_eq!(again.functions[0].actions, [], "{path}");
    }
}

#[test]
fn a_bad_profile_is_named() {
    let mut bad = profile("m");
    bad["spec"]["configurations"][0]["batch"] = json!(0);
    let mut world = World::new(&[function("f", "m")], &[bad], 2);
    let (status, _) = status(&mut world);
    assert_eq!(
        said(&status, "ProfileFound"),
        pair("False", "InvalidProfile")
    );
    assert!(
        status
            .message
            .unwrap()
            .contains("spec.configurations[0].batch")
    );
}

#[test]
fn a_load_that_is_not_known_is_said() {
    let mut world = World::new(&[function("f", "m")], &[profile("m")], 2);
    world.load_unknown = true;
    let (status, events) = status(&mut world);
    assert_eq!(said(&status, "LoadKnown"), pair("Unknown", "NoResult"));
    assert!(events.contains(&"NoResult".to_owned()));
    assert_eq!(status.load, None);
}

#[test]
fn scaling_out_is_reported_with_numbers() {
    let mut world = World::new(&[function("f", "m")], &[profile("m")], 6);
    world.loads.insert(Key::new(NAMESPACE, "f"), 90_000);
    let (first, events) = status(&mut world);
    assert_eq!(events, ["ScaledOut"]);
    assert_eq!(first.load.as_deref(), Some("90"));
    assert!(first.instances.unwrap() > 0);
    assert_eq!(first.ready, Some(0));
    assert_eq!(said(&first, "Progressing").0, "True");
    assert_eq!(first.observed_generation, Some(1));
    world.settle(10);
    let settled = &world.now.functions[&Key::new(NAMESPACE, "f")].status;
    assert_eq!(said(settled, "Ready"), pair("True", "Serving"));
    assert_eq!(said(settled, "Progressing"), pair("False", "Steady"));
    assert_eq!(settled.ready, settled.instances);
}
