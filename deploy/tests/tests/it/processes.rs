//! The daemon's processes, each in a container with the rights that its work takes, and no others (ARCHITECTURE.md).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tetris_deploy_tests::kustomize::INSTALLS;
use tetris_deploy_tests::objects::{Objects, list, text, texts};

use crate::daemon::{Daemon, Process, memory_limit};

/// User of what pods reach.
const BROKER: u64 = 9460;
/// User of what has the token.
const CLUSTER: u64 = 9461;
/// The longest time between two attempts of the kubelet to start a container, in seconds.
const BACKOFF_S: u64 = 300;

fn processes_of(install: &str) -> &'static [&'static str] {
    if install == "gpu" {
        &["broker", "cluster", "mirror", "volumes"]
    } else {
        &["broker", "cluster", "volumes"]
    }
}

/// Runs `check` with every container of the daemon in every install.
fn for_each_process(mut check: impl FnMut(&str, &Objects, &Process<'_>)) {
    for install in INSTALLS {
        let objects = Objects::golden(install);
        for process in Daemon::of(&objects).processes() {
            let name = format!("{install}: {}", process.name());
            check(&name, &objects, &process);
        }
    }
}

fn unprivileged(user: u64) -> Value {
    json!({
        "runAsUser": user, "runAsGroup": user, "runAsNonRoot": true, "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}})
}

/// As Bidirectional requires; what SELinux keeps from a confined process, pods could not reach.
fn rights(process: &str) -> Value {
    match process {
        "volumes" => {
            json!({"privileged": true, "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": true})
        }
        "cluster" => unprivileged(CLUSTER),
        _ => {
            let mut rights = unprivileged(BROKER);
            rights["seLinuxOptions"] = json!({"type": "spc_t", "level": "s0"});
            rights
        }
    }
}

#[test]
fn each_process_has_a_container_with_its_rights_and_no_others() {
    for install in INSTALLS {
        let objects = Objects::golden(install);
        let daemon = Daemon::of(&objects);
        let names: BTreeSet<_> = daemon.processes().map(|process| process.name()).collect();
        assert_eq!(
            names,
            processes_of(install).iter().copied().collect(),
            "{install}"
        );
        // Nothing for all containers: what one has, its own lines say.
        assert_eq!(
            daemon.pods.spec["securityContext"],
            Value::Null,
            "{install}"
        );
        assert_eq!(
            daemon.pods.spec["shareProcessNamespace"],
            Value::Null,
            "{install}"
        );
        let shown = &daemon.pods.metadata["annotations"]["kubectl.kubernetes.io/default-container"];
        assert_eq!(*shown, "broker", "{install}");
    }
    for_each_process(|name, _, process| {
        assert_eq!(
            process.container["securityContext"],
            rights(process.name()),
            "{name}"
        );
        assert_eq!(
            texts(&process.container["args"])[0],
            process.name(),
            "{name}"
        );
        for field in ["envFrom", "volumeDevices", "lifecycle"] {
            assert_eq!(process.container[field], Value::Null, "{name}: {field}");
        }
    });
}

/// Names of the volumes that it mounts whose definition has a field.
fn mounted<'a>(process: &'a Process<'_>, field: &str) -> BTreeSet<&'a str> {
    let mounts = list(&process.container["volumeMounts"]).iter();
    let names = mounts.filter(|mount| process.pods.volume(&mount["name"]).get(field).is_some());
    names.map(|mount| text(&mount["name"])).collect()
}

#[test]
fn the_token_and_the_network_are_for_one_process() {
    for_each_process(|name, _, process| {
        let is_cluster = process.name() == "cluster";
        let token = mounted(process, "projected");
        assert_eq!(
            token,
            is_cluster.then_some("token").into_iter().collect(),
            "{name}"
        );
        assert_eq!(mounted(process, "secret"), BTreeSet::new(), "{name}");
        let ports = list(&process.container["ports"]).len();
        assert_eq!(ports, if is_cluster { 3 } else { 0 }, "{name}");
    });
}

#[test]
fn directories_of_the_host_are_for_those_who_work_in_them() {
    for_each_process(|name, objects, process| {
        let has_driver = objects.all("CSIDriver").count() > 0;
        let expected: &[_] = match process.name() {
            "cluster" => &[],
            "volumes" if has_driver => &[
                "kubelet-plugin",
                "kubelet-pods",
                "kubelet-registry",
                "tetris",
            ],
            _ => &["tetris"],
        };
        let directories = mounted(process, "hostPath");
        assert_eq!(directories, expected.iter().copied().collect(), "{name}");
        if process.name() != "volumes" {
            let mounts = list(&process.container["volumeMounts"]).iter();
            let mut stores = mounts.filter(|mount| mount["name"] == "tetris");
            let seen = stores.all(|mount| mount["mountPropagation"] == "HostToContainer");
            assert!(
                seen,
                "{name}: mounts of `volumes` appear, and nothing is mounted from here"
            );
        }
        let config = list(&process.container["volumeMounts"]).iter();
        let mut config = config.filter(|mount| mount["name"] == "config");
        assert!(config.all(|mount| mount["readOnly"] == true), "{name}");
    });
}

/// Processes whose sockets it connects to.
fn connects_to(process: &str, has_mirror: bool) -> Vec<&'static str> {
    match process {
        "volumes" | "mirror" => vec!["broker", "cluster"],
        "cluster" => vec!["broker"],
        "broker" if has_mirror => vec!["mirror"],
        _ => Vec::new(),
    }
}

/// Another process could otherwise put its socket there, and be taken for it.
#[test]
fn the_directory_of_a_socket_is_written_by_the_process_that_serves_it_alone() {
    for_each_process(|name, objects, process| {
        let config = process.config(objects).file;
        let mut expected = BTreeSet::new();
        let mut others = connects_to(process.name(), name.starts_with("gpu:"));
        if process.name() != "volumes" {
            others.push(process.name());
        }
        for other in others {
            let directory = config.processes.directory.join(other);
            let mounts = list(&process.container["volumeMounts"]).iter();
            let mut mounts =
                mounts.filter(|mount| mount["mountPath"] == directory.to_str().unwrap());
            let mount = mounts.next().unwrap_or_else(|| panic!("{name}: {other}"));
            let read_only = if other == process.name() {
                Value::Null
            } else {
                true.into()
            };
            assert_eq!(mount["readOnly"], read_only, "{name}: {other}");
            assert_eq!(mount["mountPropagation"], Value::Null, "{name}: {other}");
            let volume = process.pods.volume(&mount["name"]);
            // It ends with the pod, and takes next to no memory.
            assert_eq!(
                volume["emptyDir"],
                json!({"medium": "Memory", "sizeLimit": "1Mi"})
            );
            expected.insert(text(&mount["name"]));
        }
        assert_eq!(mounted(process, "emptyDir"), expected, "{name}");
    });
}

#[test]
fn files_of_stores_belong_to_the_processes_that_serve_them() {
    for_each_process(|name, objects, process| {
        let mount = process.config(objects).file.mount.expect(name);
        assert_eq!(u64::from(mount.user), BROKER, "{name}");
    });
}

#[test]
fn each_process_is_watched_on_a_page_of_its_own() {
    for_each_process(|name, objects, process| {
        let port = process
            .config(objects)
            .file
            .network
            .probes
            .expect(name)
            .port();
        let is_cluster = process.name() == "cluster";
        // A name is looked up among the container's own ports.
        let (page, port) = if is_cluster {
            ("/healthz".to_owned(), json!("probes"))
        } else {
            (format!("/healthz/{}", process.name()), json!(port))
        };
        for probe in ["startupProbe", "livenessProbe"] {
            let expected = json!({"path": page, "port": port});
            assert_eq!(
                process.container[probe]["httpGet"], expected,
                "{name}: {probe}"
            );
            let number = |field: &str| process.container[probe][field].as_u64();
            let patience =
                number("periodSeconds").unwrap() * number("failureThreshold").unwrap_or(3);
            // `cluster` answers for all: while the kubelet waits with its restart, nothing else ends.
            assert!(
                is_cluster || patience >= BACKOFF_S,
                "{name}: {probe}: {patience} s"
            );
        }
        // One page for the pod, with what of all processes does not answer.
        let ready = &process.container["readinessProbe"];
        assert_eq!(ready.is_object(), is_cluster, "{name}");
        assert!(
            !is_cluster || ready["httpGet"]["path"] == "/readyz",
            "{name}"
        );
    });
}

#[test]
fn only_the_broker_needs_much_memory() {
    for_each_process(|name, _, process| {
        let limit = memory_limit(process.container) >> 20;
        let range = match process.name() {
            "broker" => 640..=u64::MAX,
            // A context of the driver for each device.
            "mirror" => 1024..=4096,
            _ => 64..=256,
        };
        assert!(range.contains(&limit), "{name}: {limit} MiB");
        assert!(
            process.container["resources"]["requests"]["cpu"].is_string(),
            "{name}"
        );
        assert_eq!(
            process.container["resources"]["limits"]["cpu"],
            Value::Null,
            "{name}"
        );
    });
}
