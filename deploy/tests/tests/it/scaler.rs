//! The scaler's manifests, and the resources that samples have, against the program.

use std::collections::BTreeSet;
use std::fs;

use clap::CommandFactory;
use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::{RENDERED, WITH_SCALER};
use tetris_deploy_tests::objects::{Objects, list, pairs, text, texts};
use tetris_scaler::resources::{InferenceFunction, Model, ModelProfile, crds_yaml, parse};

const CRDS: &str = "base/scaler/crds.yaml";

/// The definitions as the program prints them.
fn crds() -> String {
    format!(
        "# Printed by `tetris-scaler crds`; written by a test (UPDATE_GOLDEN=1).\n{}",
        crds_yaml().unwrap()
    )
}

/// Writes them anew, for the tests of golden files.
pub fn write_crds() {
    fs::write(files::deploy().join(CRDS), crds()).unwrap();
}

#[test]
fn the_definitions_are_those_that_the_program_prints() {
    assert!(
        files::read(CRDS) == crds(),
        "{CRDS} is out of date: UPDATE_GOLDEN=1"
    );
    for name in WITH_SCALER {
        let objects = Objects::golden(name);
        let names: BTreeSet<_> = objects
            .all("CustomResourceDefinition")
            .map(|definition| text(&definition["metadata"]["name"]).to_owned())
            .collect();
        let expected = ["inferencefunctions", "modelprofiles", "models"]
            .map(|resource| format!("{resource}.tetris.dev"));
        assert_eq!(names, expected.into(), "{name}");
    }
}

/// Checked as the operator checks them: unknown fields are errors, and so are values that it refuses.
#[test]
fn functions_and_profiles_of_samples_are_right_and_belong_together() {
    let mut functions = 0;
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for object in objects.all("ModelProfile") {
            let profile: ModelProfile = parse(object.clone()).unwrap();
            profile
                .checked()
                .unwrap_or_else(|problem| panic!("{name}: {problem}"));
        }
        for object in objects.all("InferenceFunction") {
            let function: InferenceFunction = parse(object.clone()).unwrap();
            function
                .checked()
                .unwrap_or_else(|problem| panic!("{name}: {problem}"));
            let profile = function
                .spec
                .profile
                .as_ref()
                .expect("a sample has measurements");
            let measured = format!("samples/scaler/{profile}.profile.yaml");
            if *name != *"sample-scaler" || files::deploy().join(measured).exists() {
                objects.one("ModelProfile", profile);
            }
            functions += 1;
        }
    }
    assert!(functions >= 2, "{functions}");
}

/// Volumes of models name a `Model` beside them.
#[test]
fn models_of_samples_are_right_and_pods_mount_them() {
    let objects = Objects::golden("sample-model");
    let models: Vec<Model> = objects
        .all("Model")
        .map(|object| parse(object.clone()).unwrap())
        .collect();
    let names: Vec<_> = models
        .iter()
        .map(|model| model.metadata.name.as_deref())
        .collect();
    let pods = objects.pods();
    let volumes = pods.iter().flat_map(|pods| list(&pods.spec["volumes"]));
    let mounted: Vec<_> = volumes
        .map(|volume| &volume["csi"]["volumeAttributes"])
        .filter(|attributes| attributes["content"] == "model")
        .map(|attributes| attributes["model"].as_str())
        .collect();
    assert!(!mounted.is_empty());
    assert_eq!(mounted, names);
}

fn deployment(objects: &Objects) -> (&Value, &Value) {
    let deployment = objects.one("Deployment", "tetris-scaler");
    let spec = &deployment["spec"]["template"]["spec"];
    (deployment, &spec["containers"][0])
}

#[test]
fn ports_are_those_that_it_listens_on_and_the_service_has_them_all() {
    for name in WITH_SCALER {
        let objects = Objects::golden(name);
        let (deployment, container) = deployment(&objects);
        let arguments = texts(&container["args"]);
        let listened = |flag: &str| {
            let address = arguments.windows(2).find(|two| two[0] == flag).unwrap()[1];
            address.rsplit_once(':').unwrap().1.parse::<u64>().unwrap()
        };
        let service = objects.one("Service", "tetris-scaler");
        let ports = [("http", "--listen"), ("grpc", "--keda-listen")];
        for ports in [&container["ports"], &service["spec"]["ports"]] {
            assert_eq!(list(ports).len(), 2);
        }
        for (port, flag) in ports {
            let named = |ports: &Value| {
                let declared = list(ports).iter().find(|found| found["name"] == port);
                declared
                    .cloned()
                    .unwrap_or_else(|| panic!("no port {port}"))
            };
            assert_eq!(named(&container["ports"])["containerPort"], listened(flag));
            assert_eq!(named(&service["spec"]["ports"])["port"], listened(flag));
            assert_eq!(named(&service["spec"]["ports"])["targetPort"], port);
        }
        let labels = pairs(&deployment["spec"]["template"]["metadata"]["labels"]);
        let selector = pairs(&service["spec"]["selector"]);
        assert!(!selector.is_empty() && selector.iter().all(|pair| labels.contains(pair)));
    }
}

#[test]
fn variables_are_those_that_flags_read() {
    let definition = tetris_scaler::cli::Cli::command();
    let mut subcommands = definition.get_subcommands();
    let run = subcommands.find(|found| found.get_name() == "run").unwrap();
    let objects = Objects::golden("scaler");
    let (_, container) = deployment(&objects);
    let variables = list(&container["env"]).iter();
    let variables: Vec<_> = variables.map(|variable| text(&variable["name"])).collect();
    let of_flags = ["POD_NAMESPACE", "POD_NAME"];
    let of_traces = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
    ];
    assert_eq!(variables, [&of_flags[..], &of_traces].concat());
    for variable in of_flags {
        let read = |env: &std::ffi::OsStr| env == variable;
        let mut arguments = run.get_arguments();
        assert!(
            arguments.any(|argument| argument.get_env().is_some_and(read)),
            "{variable}"
        );
    }
}

#[test]
fn another_replica_takes_over_when_the_leader_goes() {
    let objects = Objects::golden("scaler");
    let (deployment, _) = deployment(&objects);
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"],
        0
    );
    let budget = objects.one("PodDisruptionBudget", "tetris-scaler");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
}

/// The daemon's policy lets in no one but Prometheus; this one lets in the scaler, to the port that the scaler may go to.
#[test]
fn the_scaler_reaches_the_daemons() {
    let objects = Objects::golden("scaler");
    let labels_of = |kind, name| {
        let object = objects.one(kind, name);
        object["spec"]["template"]["metadata"]["labels"].clone()
    };
    let (daemon, scaler) = (
        labels_of("DaemonSet", "tetris-node"),
        labels_of("Deployment", "tetris-scaler"),
    );
    let policy = objects.one("NetworkPolicy", "tetris-scaler-inventory");
    let matches = |selector: &Value, labels: &Value| {
        let wanted = pairs(&selector["matchLabels"]);
        !wanted.is_empty() && wanted.iter().all(|pair| pairs(labels).contains(pair))
    };
    assert!(matches(&policy["spec"]["podSelector"], &daemon));
    let rule = &policy["spec"]["ingress"][0];
    assert!(matches(&rule["from"][0]["podSelector"], &scaler));
    assert_eq!(rule["ports"][0]["port"], "inventory");
    let policy = objects.one("NetworkPolicy", "tetris-scaler");
    let mut outwards = list(&policy["spec"]["egress"]).iter();
    let to_daemons = outwards.find(|rule| matches(&rule["to"][0]["podSelector"], &daemon));
    let node = objects.one("DaemonSet", "tetris-node");
    let containers = list(&node["spec"]["template"]["spec"]["containers"]).iter();
    let mut ports = containers.flat_map(|container| list(&container["ports"]));
    let inventory = ports.find(|port| port["name"] == "inventory");
    assert_eq!(
        to_daemons.unwrap()["ports"][0]["port"],
        inventory.unwrap()["containerPort"]
    );
}

/// This is not rendered: KEDA may not be there.
#[test]
fn the_sample_for_keda_names_the_service() {
    let install = Objects::golden("scaler");
    let service = install.one("Service", "tetris-scaler");
    let port = |name: &str| {
        let mut ports = list(&service["spec"]["ports"]).iter();
        let port = ports.find(|port| port["name"] == name).unwrap();
        port["port"].as_u64().unwrap()
    };
    let keda = Objects::parse(&files::read("samples/scaler/keda.yaml")).unwrap();
    let mut scaled = 0;
    for object in keda.all("ScaledObject") {
        let metadata = &object["spec"]["triggers"][0]["metadata"];
        let address = format!("tetris-scaler.tetris-system:{}", port("grpc"));
        assert_eq!(text(&metadata["scalerAddress"]), address);
        let function = keda.one("InferenceFunction", text(&metadata["function"]));
        let function: InferenceFunction = parse(function.clone()).unwrap();
        function
            .checked()
            .unwrap_or_else(|problem| panic!("{problem}"));
        let names = function.spec.configurations.unwrap();
        assert!(names.iter().any(|name| metadata["configuration"] == **name));
        keda.one(
            "Deployment",
            text(&object["spec"]["scaleTargetRef"]["name"]),
        );
        scaled += 1;
    }
    assert!(scaled > 0);
    for pods in keda.pods() {
        for container in pods.containers() {
            assert_eq!(container["image"], "tetris-instance", "{}", pods.name());
        }
    }
}

#[test]
fn the_scaler_is_open_to_single_namespaces_only() {
    for name in WITH_SCALER {
        let objects = Objects::golden(name);
        let policy = objects.one("NetworkPolicy", "tetris-scaler");
        for rule in list(&policy["spec"]["ingress"]) {
            assert!(
                !list(&rule["from"]).is_empty(),
                "{name}: open to all: {rule}"
            );
            for from in list(&rule["from"]) {
                let namespace = pairs(&from["namespaceSelector"]["matchLabels"]);
                assert_eq!(namespace.len(), 1, "{name}: {from}");
            }
        }
    }
    let keda = Objects::golden("scaler");
    let policy = keda.one("NetworkPolicy", "tetris-scaler");
    let mut rules = list(&policy["spec"]["ingress"]).iter();
    let rule = rules
        .find(|rule| rule["ports"][0]["port"] == "grpc")
        .unwrap();
    let from = &rule["from"][0];
    assert_eq!(
        pairs(&from["podSelector"]["matchLabels"]),
        [("app", "keda-operator")]
    );
}
