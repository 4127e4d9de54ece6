//! The gateway's manifests: what it serves, to whom, and that the operator finds it.

use serde_json::Value;
use tetris_deploy_tests::kustomize::{RENDERED, WITH_GATEWAY};
use tetris_deploy_tests::objects::{Objects, list, pairs, text, texts};
use tetris_scaler::gateways::PORT;
use tetris_scaler::labels;

const NAME: &str = "tetris-gateway";
const PICKER: &str = "endpoint-picker";

fn container(objects: &Objects) -> &Value {
    let deployment = objects.one("Deployment", NAME);
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn listened(container: &Value, flag: &str) -> Option<u64> {
    let arguments = texts(&container["args"]);
    let mut pairs = arguments.windows(2);
    let address = pairs.find(|two| two[0] == flag)?[1];
    Some(address.rsplit_once(':')?.1.parse().unwrap())
}

fn ports(of: &Value, field: &str) -> Vec<(String, u64)> {
    let ports = list(of).iter();
    let ports = ports.map(|port| {
        (
            text(&port["name"]).to_owned(),
            port[field].as_u64().unwrap(),
        )
    });
    ports.collect()
}

#[test]
fn ports_are_those_that_it_listens_on_and_clients_come_by_port_80() {
    for name in WITH_GATEWAY {
        let objects = Objects::golden(name);
        let container = container(&objects);
        let mut expected = vec![
            ("http".to_owned(), listened(container, "--listen").unwrap()),
            (
                "metrics".to_owned(),
                listened(container, "--metrics-listen").unwrap(),
            ),
        ];
        let mut served = vec![("http".to_owned(), 80)];
        if name == PICKER {
            let port = listened(container, "--picker-listen").unwrap();
            expected.push(("picker".to_owned(), port));
            served.push(("picker".to_owned(), port));
        }
        assert_eq!(ports(&container["ports"], "containerPort"), expected);
        let service = objects.one("Service", NAME);
        assert_eq!(ports(&service["spec"]["ports"], "port"), served, "{name}");
        for port in list(&service["spec"]["ports"]) {
            assert_eq!(port["targetPort"], port["name"], "{name}");
        }
    }
}

#[test]
fn the_operator_finds_the_gateways_and_reaches_their_loads() {
    let (label, value) = labels::GATEWAY;
    for name in WITH_GATEWAY {
        let objects = Objects::golden(name);
        let deployment = objects.one("Deployment", NAME);
        let labels = pairs(&deployment["spec"]["template"]["metadata"]["labels"]);
        assert!(labels.contains(&(label, value)), "{name}");
        assert_eq!(
            listened(container(&objects), "--metrics-listen"),
            Some(PORT.into())
        );
        // Its page has the name of the pod.
        let names = list(&container(&objects)["env"]).iter();
        let pod = names
            .filter(|entry| entry["name"] == "POD_NAME")
            .map(|name| text(&name["valueFrom"]["fieldRef"]["fieldPath"]));
        assert_eq!(pod.collect::<Vec<_>>(), ["metadata.name"]);
        let policy = objects.one("NetworkPolicy", NAME);
        let rules = list(&policy["spec"]["ingress"]);
        let rule = rules
            .iter()
            .find(|rule| rule["ports"][0]["port"] == "metrics")
            .unwrap();
        let scaler = &objects.one("Deployment", "tetris-scaler")["spec"]["selector"];
        let from: Vec<_> = list(&rule["from"]).iter().collect();
        assert!(from.iter().any(|from| from["podSelector"] == *scaler));
        let outwards = objects.one("NetworkPolicy", "tetris-gateway-loads");
        assert_eq!(outwards["spec"]["podSelector"], *scaler);
        assert_eq!(
            outwards["spec"]["policyTypes"],
            serde_json::json!(["Egress"])
        );
        let rule = &outwards["spec"]["egress"][0];
        assert_eq!(rule["to"][0]["podSelector"], deployment["spec"]["selector"]);
        assert_eq!(rule["ports"][0]["port"], u64::from(PORT));
    }
}

/// A client that reaches it learns the instances of all functions: it has no authentication.
#[test]
fn the_picker_is_served_on_request_and_to_one_namespace() {
    for name in WITH_GATEWAY {
        let objects = Objects::golden(name);
        let policy = objects.one("NetworkPolicy", NAME);
        let rules = list(&policy["spec"]["ingress"]).iter();
        let rules: Vec<_> = rules
            .filter(|rule| rule["ports"][0]["port"] == "picker")
            .collect();
        assert_eq!(rules.len(), usize::from(name == PICKER), "{name}");
        for rule in rules {
            let from = list(&rule["from"]);
            assert_eq!(from.len(), 1);
            let namespace = &from[0]["namespaceSelector"]["matchLabels"];
            assert_eq!(pairs(namespace).len(), 1);
        }
        let is_served = listened(container(&objects), "--picker-listen").is_some();
        assert_eq!(is_served, name == PICKER);
    }
}

#[test]
fn requests_end_before_a_gateway_does_and_another_serves_meanwhile() {
    let objects = Objects::golden("gateway");
    let spec = &objects.one("Deployment", NAME)["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let budget = objects.one("PodDisruptionBudget", NAME);
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let grace = spec["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    let sleep = container(&objects)["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
    assert!(grace.unwrap() > sleep.unwrap() + 60, "{grace:?} {sleep:?}");
}

#[test]
fn gateways_are_where_the_scaler_is() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        let mut all = objects.all("Deployment");
        let has_gateway = all.any(|entry| entry["metadata"]["name"] == NAME);
        assert_eq!(has_gateway, WITH_GATEWAY.contains(&name), "{name}");
        if has_gateway {
            objects.one("Deployment", "tetris-scaler");
            objects.one("CustomResourceDefinition", "inferencefunctions.tetris.dev");
        }
    }
}
