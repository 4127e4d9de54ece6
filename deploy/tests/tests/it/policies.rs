//! The admission policies, evaluated without an API server: what each account's component needs passes, every attack does not.

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{self, Context, Program};
use serde_json::{Value, json};
use tetris_deploy_tests::kustomize::{RENDERED, WITH_SCALER, WITH_WEBHOOK};
use tetris_deploy_tests::objects::{Objects, list, text, texts};

use crate::attacks::{self, Change, GATES, SCALER, WEBHOOK};

const NAMESPACE: &str = "blue";

/// A request that may change an object.
struct Request<'a> {
    account: &'a str,
    resource: &'a str,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

impl Request<'_> {
    fn operation(&self) -> &'static str {
        match (self.old, self.new) {
            (None, _) => "CREATE",
            (_, None) => "DELETE",
            _ => "UPDATE",
        }
    }

    /// Messages of the rules that refuse it.
    fn refused(&self, policies: &Objects) -> Vec<String> {
        let mut refused = Vec::new();
        for policy in policies.all("ValidatingAdmissionPolicy") {
            let spec = &policy["spec"];
            let rules = list(&spec["matchConstraints"]["resourceRules"]).iter();
            let is_about = |rule: &Value| {
                texts(&rule["resources"]).contains(&self.resource)
                    && texts(&rule["operations"]).contains(&self.operation())
            };
            let conditions: Vec<_> = list(&spec["matchConditions"]).to_vec();
            if rules.filter(|rule| is_about(rule)).count() == 1
                && self.evaluate(spec, &conditions).is_empty()
            {
                refused.extend(self.evaluate(spec, list(&spec["validations"])));
            }
        }
        refused
    }

    /// Messages of the expressions that are not true. One that fails counts as such: `failurePolicy`.
    fn evaluate(&self, spec: &Value, expressions: &[Value]) -> Vec<String> {
        let mut context = Context::default();
        context.register_all();
        let request = json!({
            "operation": self.operation(), "userInfo": {"username": self.account},
        });
        let (old, new) = (
            self.old.unwrap_or(&Value::Null),
            self.new.unwrap_or(&Value::Null),
        );
        for (name, value) in [("request", &request), ("oldObject", old), ("object", new)] {
            context.add_variable(name, value).unwrap();
        }
        let refuses = |one: &&Value| {
            let expression = expanded(spec, text(&one["expression"]));
            let program = Program::compile(&expression);
            let program = program.unwrap_or_else(|error| panic!("{expression}: {error}"));
            !matches!(program.execute(&context), Ok(cel::Value::Bool(true)))
        };
        let refused = expressions.iter().filter(refuses);
        refused
            .map(|expression| text(&expression["message"]).to_owned())
            .collect()
    }
}

/// An expression with its variables written out. The evaluator knows neither them nor `dyn`, which
/// means nothing at run time.
fn expanded(spec: &Value, expression: &str) -> String {
    let mut expression = expression.to_owned();
    // A variable may name earlier ones.
    for variable in list(&spec["variables"]).iter().rev() {
        let name = format!("variables.{}", text(&variable["name"]));
        let value = format!("({})", text(&variable["expression"]));
        expression = expression.replace(&name, &value);
    }
    expression.replace("dyn(", "(")
}

/// An object as the API server has it.
fn stored(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = "00000000-0000-0000-0000-000000000009".into();
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    metadata["resourceVersion"] = "7".into();
    metadata["generation"] = 1.into();
    metadata["managedFields"] = json!([{"manager": "kubectl"}]);
    object
}

/// A write of it: some metadata always changes.
fn written(mut object: Value, change: fn(&mut Value)) -> Value {
    change(&mut object);
    object["metadata"]["resourceVersion"] = "8".into();
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}, {"manager": "other"}]);
    object
}

/// Requires that an account may make all of `allowed`, and none of `attacks`; others are not concerned.
fn require(account: &str, resource: &str, object: &Value, allowed: &[Change], attacks: &[Change]) {
    let policies = policies(account);
    let refused = |account, (what, change): &Change| {
        let new = written(object.clone(), *change);
        assert!(new != *object, "{resource}: {what} changes nothing");
        let request = Request {
            account,
            resource,
            old: Some(object),
            new: Some(&new),
        };
        request.refused(&policies)
    };
    for change in allowed {
        let refusing = refused(account, change);
        assert!(
            refusing.is_empty(),
            "{resource}: {} is refused: {refusing:?}",
            change.0
        );
    }
    assert!(!attacks.is_empty());
    for change in attacks {
        let refusing = refused(account, change);
        assert!(!refusing.is_empty(), "{resource}: {} passes", change.0);
        let told = refusing
            .iter()
            .any(|message| message.starts_with("tetris-"));
        assert!(told, "{resource}: {}: {refusing:?}", change.0);
        assert!(refused("alice", change).is_empty(), "others are concerned");
    }
}

fn policies(account: &str) -> Objects {
    Objects::golden(if account == WEBHOOK {
        "webhook"
    } else {
        "scaler"
    })
}

/// Requires that a creation or deletion passes, or does not.
fn require_alone(
    account: &str,
    resource: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    passes: bool,
) {
    let request = Request {
        account,
        resource,
        old,
        new,
    };
    let refusing = request.refused(&policies(account));
    let operation = request.operation();
    assert_eq!(
        refusing.is_empty(),
        passes,
        "{operation} of {resource}: {refusing:?}"
    );
}

#[test]
fn the_webhook_changes_nothing_but_ca_bundles_of_its_configuration() {
    let objects = Objects::golden("webhook");
    let mut configuration = objects
        .one("MutatingWebhookConfiguration", "tetris-webhook")
        .clone();
    let fill: Change = ("the first authorities", |it| {
        for index in 0..2 {
            it["webhooks"][index]["clientConfig"]["caBundle"] = "Zmlyc3Q=".into();
        }
        it["metadata"]["generation"] = 2.into();
    });
    let renew: Change = ("another authority", |it| {
        it["webhooks"][1]["clientConfig"]["caBundle"] = "c2Vjb25k".into();
    });
    let resource = "mutatingwebhookconfigurations";
    let attacks = attacks::of_the_configuration();
    require(
        WEBHOOK,
        resource,
        &stored(configuration.clone()),
        &[fill, renew],
        &attacks,
    );
    fill.1(&mut configuration);
    let configuration = stored(configuration);
    require(WEBHOOK, resource, &configuration, &[renew], &attacks);
    require_alone(WEBHOOK, resource, None, Some(&configuration), false);
    require_alone(WEBHOOK, resource, Some(&configuration), None, false);
}

#[test]
fn the_webhook_changes_nothing_but_the_data_of_its_secret() {
    let objects = Objects::golden("webhook");
    let mut shipped = objects.one("Secret", "tetris-webhook-tls").clone();
    shipped["type"] = "Opaque".into();
    let mut earlier = shipped.clone();
    earlier["type"] = "kubernetes.io/tls".into();
    earlier["data"] = json!({"tls.crt": "YQ==", "tls.key": "Yg=="});
    let fill: Change = ("certificates", |it| {
        it["data"] =
            json!({"ca.crt": "YQ==", "ca.key": "Yg==", "tls.crt": "Yw==", "tls.key": "ZA=="});
    });
    let mut attacks = attacks::of_the_secret();
    attacks.push(("another type", |it| {
        it["type"] = "kubernetes.io/service-account-token".into();
    }));
    for secret in [stored(shipped), stored(earlier)] {
        require(WEBHOOK, "secrets", &secret, &[fill], &attacks);
        require_alone(WEBHOOK, "secrets", None, Some(&secret), false);
        require_alone(WEBHOOK, "secrets", Some(&secret), None, false);
    }
}

#[test]
fn the_scaler_writes_deployments_of_functions_alone() {
    let deployment = attacks::deployment(NAMESPACE);
    let resource = "deployments";
    let allowed: [Change; 3] = [
        ("replicas", |it| it["spec"]["replicas"] = 5.into()),
        ("the image", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["image"] = "server:2".into();
        }),
        ("annotations", |it| {
            it["metadata"]["annotations"] = json!({"tetris.dev/template-hash": "a"});
        }),
    ];
    let stored_own = stored(deployment.clone());
    require(
        SCALER,
        resource,
        &stored_own,
        &allowed,
        &attacks::of_its_deployment(),
    );
    require_alone(SCALER, resource, None, Some(&deployment), true);
    require_alone(SCALER, resource, Some(&stored_own), None, true);
    for (what, spoil) in attacks::of_a_new_deployment() {
        let mut new = deployment.clone();
        spoil(&mut new);
        assert_ne!(new, deployment, "{what}");
        require_alone(SCALER, resource, None, Some(&new), false);
    }
    let another = stored(attacks::another_deployment(NAMESPACE));
    require(
        SCALER,
        resource,
        &another,
        &[],
        &attacks::of_another_deployment(),
    );
    require_alone(SCALER, resource, Some(&another), None, false);
    // One with labels and name of a function's, as KEDA's users write it, is theirs.
    let mut keda = stored_own;
    keda["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    require(
        SCALER,
        resource,
        &keda,
        &[],
        &attacks::of_another_deployment(),
    );
    require_alone(SCALER, resource, Some(&keda), None, false);
}

#[test]
fn the_scaler_writes_daemon_sets_of_models_alone() {
    let objects = Objects::golden("scaler");
    let template = objects.one("PodTemplate", "tetris-model");
    let server = attacks::model_server(NAMESPACE, template);
    let resource = "daemonsets";
    let stored_own = stored(server.clone());
    let allowed: [Change; 3] = [
        ("nodes", |it| {
            it["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {}});
        }),
        ("memory", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] =
                "2Gi".into();
        }),
        ("an image of a registry", |it| {
            let container = &mut it["spec"]["template"]["spec"]["containers"][0];
            container["image"] = "registry.example.com:5000/team/tetris-agent:1.2@sha256:0".into();
        }),
    ];
    let attacks = attacks::of_a_model_server();
    require(SCALER, resource, &stored_own, &allowed, &attacks);
    require_alone(SCALER, resource, None, Some(&server), true);
    require_alone(SCALER, resource, Some(&stored_own), None, true);
    for (what, spoil) in attacks {
        let mut new = server.clone();
        spoil(&mut new);
        assert_ne!(new, server, "{what}");
        require_alone(SCALER, resource, None, Some(&new), false);
    }
    // That of a user, e.g. the daemon of nodes.
    let node = Objects::golden("node");
    let node = stored(node.one("DaemonSet", "tetris-node").clone());
    let image: Change = ("the image", |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/steal:1".into();
    });
    require(SCALER, resource, &node, &[], &[image]);
    require_alone(SCALER, resource, Some(&node), None, false);
}

#[test]
fn the_scaler_writes_jobs_and_profiles_of_measured_functions_alone() {
    let cases = [
        ("jobs", attacks::job(NAMESPACE), attacks::of_a_job()),
        (
            "modelprofiles",
            attacks::profile(NAMESPACE),
            attacks::of_a_profile(),
        ),
    ];
    for (resource, own, attacks) in cases {
        let stored_own = stored(own.clone());
        require(SCALER, resource, &stored_own, &[], &attacks);
        require_alone(SCALER, resource, None, Some(&own), true);
        // A ModelProfile goes with its function, and a Job once it was read.
        require_alone(
            SCALER,
            resource,
            Some(&stored_own),
            None,
            resource == "jobs",
        );
        for (what, spoil) in attacks {
            let mut new = own.clone();
            spoil(&mut new);
            assert_ne!(new, own, "{what}");
            require_alone(SCALER, resource, None, Some(&new), false);
        }
    }
    let mut users = stored(attacks::profile(NAMESPACE));
    users["metadata"]["labels"] = json!({});
    require(
        SCALER,
        "modelprofiles",
        &users,
        &[],
        &attacks::of_a_profile_of_a_user(),
    );
}

#[test]
fn the_scaler_marks_instances_and_changes_nothing_else_of_pods() {
    let mut instance = stored(attacks::instance(NAMESPACE));
    let marks = attacks::marks();
    let attacks = attacks::of_an_instance();
    require(SCALER, "pods", &instance, &marks, &attacks);
    for (_, mark) in &marks {
        mark(&mut instance);
    }
    let unmark: Change = ("no marks", |it| {
        it["metadata"]["annotations"] = json!({"example.com/kept": "yes"});
    });
    require(SCALER, "pods", &instance, &[unmark], &attacks);
    let mut bare = instance.clone();
    bare["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    require(SCALER, "pods", &bare, &marks, &attacks[..4]);
    let another = stored(attacks::another_pod(NAMESPACE));
    require(SCALER, "pods", &another, &[], &marks);
    require_alone(SCALER, "pods", None, Some(&instance), false);
    require_alone(SCALER, "pods", Some(&instance), None, false);
}

#[test]
fn the_scaler_opens_its_gate_and_narrows_the_node_affinity_with_it() {
    let gated = stored(attacks::gated_instance(NAMESPACE));
    let openings = attacks::openings();
    let attacks = [
        attacks::of_an_instance(),
        attacks::of_a_gated_instance(),
        attacks::of_gates(),
    ];
    require(SCALER, "pods", &gated, &openings, &attacks.concat());
    // Without other affinity and other gates.
    let mut bare = gated.clone();
    bare["spec"].as_object_mut().unwrap().remove("affinity");
    bare["spec"]["schedulingGates"] = json!([{"name": "tetris.dev/placement"}]);
    let open: [Change; 2] = [
        ("an open gate", |it| {
            it["spec"]
                .as_object_mut()
                .unwrap()
                .remove("schedulingGates");
        }),
        ("an open gate and a node", |it| {
            it["spec"]
                .as_object_mut()
                .unwrap()
                .remove("schedulingGates");
            it["spec"]["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]},
            }});
        }),
    ];
    require(SCALER, "pods", &bare, &open, &attacks[0]);
    // A pod that someone made with the labels and the gate of an instance.
    for owners in [
        json!([]),
        json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other-1",
            "uid": "00000000-0000-0000-0000-000000000003", "controller": true,
        }]),
    ] {
        let mut foreign = gated.clone();
        foreign["metadata"]["ownerReferences"] = owners;
        require(SCALER, "pods", &foreign, &[], &openings);
        require(GATES, "pods", &foreign, &[], &openings);
        require_alone(SCALER, "pods", Some(&foreign), None, false);
    }
}

#[test]
fn the_scaler_opens_its_gate_of_pods_that_name_their_model_and_adds_preferred_nodes() {
    let gated = stored(attacks::model_pod(NAMESPACE));
    let openings = attacks::preferences();
    let closed: Change = ("preferred nodes with a closed gate", |it| {
        attacks::prefer(it);
    });
    let attacks = [
        attacks::of_an_instance(),
        attacks::of_a_gated_instance(),
        attacks::of_gates(),
        attacks::marks(),
        vec![closed],
    ];
    require(SCALER, "pods", &gated, &openings, &attacks.concat());
    require_alone(SCALER, "pods", Some(&gated), None, false);
    // Without affinity and other gates, as the webhook leaves a pod.
    let mut bare = gated.clone();
    bare["spec"].as_object_mut().unwrap().remove("affinity");
    bare["spec"]["schedulingGates"] = json!([{"name": "tetris.dev/placement"}]);
    let open: [Change; 2] = [
        ("an open gate", |it| {
            let spec = it["spec"].as_object_mut().unwrap();
            spec.remove("schedulingGates");
        }),
        ("an open gate and preferred nodes", |it| {
            let spec = it["spec"].as_object_mut().unwrap();
            spec.remove("schedulingGates");
            spec.insert("affinity".to_owned(), json!({"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 90, "preference": {
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
                }}],
            }}));
        }),
    ];
    require(SCALER, "pods", &bare, &open, &attacks[0]);
    // It names no model.
    let mut other = gated.clone();
    other["metadata"]["annotations"] = json!({"example.com/kept": "yes"});
    require(SCALER, "pods", &other, &[], &openings);
    require(GATES, "pods", &other, &[], &openings);
    // The account of gates opens it, and narrows nothing.
    require(GATES, "pods", &gated, &openings[..1], &openings[1..]);
    require(GATES, "pods", &gated, &[], &attacks.concat());
}

#[test]
fn the_scaler_deletes_instances_that_no_node_has_taken_alone() {
    let mut instance = stored(attacks::gated_instance(NAMESPACE));
    require_alone(SCALER, "pods", Some(&instance), None, true);
    require_alone(GATES, "pods", Some(&instance), None, false);
    instance["spec"]["nodeName"] = "n".into();
    require_alone(SCALER, "pods", Some(&instance), None, false);
    let another = stored(attacks::another_pod(NAMESPACE));
    require_alone(SCALER, "pods", Some(&another), None, false);
}

#[test]
fn the_account_of_gates_removes_the_gate_of_instances_and_changes_nothing_else() {
    let gated = stored(attacks::gated_instance(NAMESPACE));
    let (open, narrow) = (attacks::openings()[0], attacks::openings()[1]);
    let attacks = [
        attacks::of_an_instance(),
        attacks::of_a_gated_instance(),
        attacks::of_gates(),
        attacks::marks(),
        vec![narrow],
    ];
    require(GATES, "pods", &gated, &[open], &attacks.concat());
    require_alone(GATES, "pods", None, Some(&gated), false);
}

#[test]
fn the_scaler_writes_its_own_events_alone() {
    let event = attacks::event(NAMESPACE);
    require_alone(SCALER, "events", None, Some(&event), true);
    let series: Change = ("a series", |it| {
        it["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"});
    });
    let attacks = attacks::of_an_event();
    require(
        SCALER,
        "events",
        &stored(event.clone()),
        &[series],
        &attacks,
    );
    for (what, spoil) in attacks {
        let mut other = event.clone();
        spoil(&mut other);
        require_alone(SCALER, "events", None, Some(&other), false);
        let taken_over = Request {
            account: SCALER,
            resource: "events",
            old: Some(&stored(other)),
            new: Some(&stored(event.clone())),
        };
        assert!(!taken_over.refused(&policies(SCALER)).is_empty(), "{what}");
    }
    require_alone(SCALER, "events", Some(&event), None, false);
}

#[test]
fn the_scaler_has_tokens_made_for_daemons_alone() {
    let request = attacks::token_request();
    let resource = "serviceaccounts/token";
    require_alone(SCALER, resource, None, Some(&request), true);
    for (what, spoil) in attacks::of_a_token_request() {
        let mut other = request.clone();
        spoil(&mut other);
        assert_ne!(other, request, "{what}");
        require_alone(SCALER, resource, None, Some(&other), false);
        // The kubelet asks for those of volumes in its own name.
        require_alone("alice", resource, None, Some(&other), true);
    }
}

/// A policy without a binding does nothing, and one that only warns stops no one.
#[test]
fn policies_are_bound_and_deny() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        let policies: Vec<_> = objects.all("ValidatingAdmissionPolicy").collect();
        for policy in &policies {
            let binding = objects.one(
                "ValidatingAdmissionPolicyBinding",
                text(&policy["metadata"]["name"]),
            );
            let expected = json!({
                "policyName": policy["metadata"]["name"], "validationActions": ["Deny"],
            });
            assert_eq!(binding["spec"], expected, "{name}");
            assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
        }
        let webhook = if WITH_WEBHOOK.contains(&name) { 2 } else { 0 };
        let scaler = if WITH_SCALER.contains(&name) { 8 } else { 0 };
        let expected = if name == "cluster-older" {
            0
        } else {
            webhook + scaler
        };
        assert_eq!(policies.len(), expected, "{name}");
        let bindings = objects.all("ValidatingAdmissionPolicyBinding").count();
        assert_eq!(bindings, expected, "{name}");
    }
}
