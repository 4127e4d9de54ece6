//! The direction of dependencies: everything may depend on the store's layout, which depends on
//! nothing but the standard library, system calls, hashing and error types.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Packages that only daemons, operators, bindings and programs may depend on.
const HEAVY: [&str; 12] = [
    "tokio",
    "async-std",
    "futures",
    "kube",
    "k8s-openapi",
    "clap",
    "pyo3",
    "cudarc",
    "tonic",
    "axum",
    "hyper",
    "reqwest",
];

/// Direct dependencies of the store's layout.
const LAYOUT_MAY: [&str; 7] = [
    "blake3",
    "crc32fast",
    "libc",
    "memmap2",
    "nix",
    "rustix",
    "thiserror",
];

/// Packages of this workspace that each may depend on directly, besides the store's layout.
const MAY: [(&str, &[&str]); 36] = [
    ("tetris-store-layout", &[]),
    ("tetris-loader", &[]),
    (
        "tetris-agent",
        &[
            "tetris-gpu-client",
            "tetris-gpu-device",
            "tetris-gpu-protocol",
            "tetris-loader",
            "tetris-wire",
        ],
    ),
    (
        "tetris-cli",
        &[
            "tetris-agent",
            "tetris-conventions",
            "tetris-delivery",
            "tetris-folder",
            "tetris-gpu-client",
            "tetris-gpu-device",
            "tetris-gpu-protocol",
            "tetris-loader",
            "tetris-units",
            "tetris-wire",
        ],
    ),
    ("tetris-conventions", &[]),
    (
        "tetris-delivery",
        &[
            "tetris-agent",
            "tetris-folder",
            "tetris-loader",
            "tetris-tls-roots",
        ],
    ),
    ("tetris-folder", &["tetris-loader"]),
    ("tetris-tls-roots", &[]),
    ("tetris-units", &[]),
    ("tetris-allocator", &[]),
    ("tetris-python", &["tetris-agent", "tetris-cli"]),
    ("tetris-wire", &[]),
    ("tetris-gpu-device", &[]),
    ("tetris-gpu-protocol", &["tetris-gpu-device", "tetris-wire"]),
    (
        "tetris-gpu-client",
        &["tetris-gpu-device", "tetris-gpu-protocol", "tetris-wire"],
    ),
    (
        "tetris-gpu-server",
        &["tetris-gpu-device", "tetris-gpu-protocol", "tetris-wire"],
    ),
    ("tetris-reclaimer-core", &["tetris-units"]),
    ("tetris-cold", &["tetris-folder", "tetris-loader"]),
    (
        "tetris-node",
        &[
            "tetris-allocator",
            "tetris-cold",
            "tetris-conventions",
            "tetris-reclaimer-core",
            "tetris-gpu-device",
            "tetris-gpu-protocol",
            "tetris-gpu-server",
            "tetris-loader",
            "tetris-sandbox",
            "tetris-service-kit",
            "tetris-tls-roots",
            "tetris-units",
            "tetris-wire",
        ],
    ),
    ("tetris-sandbox", &[]),
    ("tetris-scaler-core", &[]),
    (
        "tetris-scaler",
        &[
            "tetris-conventions",
            "tetris-scaler-core",
            "tetris-scaler-profiler",
            "tetris-service-kit",
            "tetris-tls-roots",
            "tetris-units",
        ],
    ),
    ("tetris-scaler-dispatch", &["tetris-scaler-core"]),
    (
        "tetris-gateway",
        &[
            "tetris-conventions",
            "tetris-scaler",
            "tetris-scaler-core",
            "tetris-scaler-dispatch",
            "tetris-service-kit",
            "tetris-tls-roots",
            "tetris-units",
        ],
    ),
    (
        "tetris-scaler-profiler",
        &["tetris-conventions", "tetris-scaler-core"],
    ),
    (
        "tetris-density",
        &[
            "tetris-agent",
            "tetris-conventions",
            "tetris-node",
            "tetris-test-support",
            "tetris-units",
        ],
    ),
    ("tetris-hostile", &[]),
    ("tetris-test-support", ANYTHING),
    ("tetris-protocol-model", &[]),
    (
        "tetris-service-kit",
        &["tetris-allocator", "tetris-conventions", "tetris-tls-roots"],
    ),
    (
        "tetris-webhook",
        &[
            "tetris-conventions",
            "tetris-service-kit",
            "tetris-tls-roots",
        ],
    ),
    ("tetris-deploy-tests", ANYTHING),
    ("tetris-fuzz-checks", ANYTHING),
    ("tetris-attacks", ANYTHING),
    ("tetris-container-tests", ANYTHING),
    ("tetris-tests", ANYTHING),
];
const ANYTHING: &[&str] = &["*"];

/// Packages that compute and touch nothing else: no file, no clock, no network.
const PURE: [&str; 4] = [
    "tetris-reclaimer-core",
    "tetris-scaler-core",
    "tetris-scaler-dispatch",
    "tetris-units",
];

struct Graph {
    /// Names of the workspace's packages.
    members: BTreeSet<String>,
    /// Dependencies in each member's manifest: package, and true if only for development.
    direct: BTreeMap<String, Vec<(String, bool)>>,
    /// Dependencies of each package, built as a dependency, by id.
    needs: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, String>,
}

/// Output of cargo.
fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Graph {
    fn read() -> Self {
        let version = cargo(&["-vV"]);
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let metadata = cargo(&[
            "metadata",
            "--format-version=1",
            "--offline",
            "--locked",
            // What other systems need is not there when nothing may be downloaded.
            "--filter-platform",
            host.unwrap(),
        ]);
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let member_ids: BTreeSet<_> = list(&metadata["workspace_members"])
            .iter()
            .map(text)
            .collect();
        let mut graph = Self {
            members: BTreeSet::new(),
            direct: BTreeMap::new(),
            needs: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        for package in list(&metadata["packages"]) {
            let (id, name) = (text(&package["id"]), text(&package["name"]));
            if member_ids.contains(&id) {
                graph.members.insert(name.clone());
                let direct = list(&package["dependencies"]).iter().map(|dependency| {
                    let dev = dependency["kind"].as_str() == Some("dev");
                    (text(&dependency["name"]), dev)
                });
                graph.direct.insert(name.clone(), direct.collect());
            }
            graph.names.insert(id, name);
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let needs = list(&node["deps"]).iter().filter(|dependency| {
                let kinds = list(&dependency["dep_kinds"]);
                kinds
                    .iter()
                    .any(|kind| kind["kind"].as_str() != Some("dev"))
            });
            let needs = needs.map(|dependency| text(&dependency["pkg"])).collect();
            graph.needs.insert(text(&node["id"]), needs);
        }
        graph
    }

    /// Names of everything built with `package`.
    fn closure(&self, package: &str) -> BTreeSet<&str> {
        let ids = self.names.iter().filter(|(_, name)| *name == package);
        let mut todo: Vec<&str> = ids.map(|(id, _)| id.as_str()).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if seen.insert(id) {
                todo.extend(self.needs.get(id).into_iter().flatten().map(String::as_str));
            }
        }
        seen.iter()
            .filter_map(|id| Some(self.names.get(*id)?.as_str()))
            .collect()
    }
}

#[test]
fn the_store_layout_depends_on_nothing_heavy() {
    let graph = Graph::read();
    for (name, dev) in &graph.direct["tetris-store-layout"] {
        assert!(
            *dev || LAYOUT_MAY.contains(&name.as_str()),
            "depends on {name}"
        );
    }
    let all = graph.closure("tetris-store-layout");
    for heavy in HEAVY {
        assert!(!all.contains(heavy), "builds {heavy}");
    }
}

#[test]
fn cores_and_libraries_without_a_daemon_depend_on_no_runtime() {
    let graph = Graph::read();
    let light = [
        "tetris-agent",
        "tetris-cold",
        "tetris-gpu-client",
        "tetris-gpu-device",
        "tetris-gpu-protocol",
        "tetris-gpu-server",
        "tetris-loader",
        "tetris-reclaimer-core",
        "tetris-scaler-core",
        "tetris-wire",
    ];
    for package in light.iter().filter(|name| graph.members.contains(**name)) {
        let all = graph.closure(package);
        for heavy in ["tokio", "kube", "k8s-openapi", "pyo3", "tonic", "axum"] {
            assert!(!all.contains(heavy), "{package} builds {heavy}");
        }
    }
}

#[test]
fn only_the_node_links_the_server_of_the_mirror_and_it_links_no_client() {
    let graph = Graph::read();
    for package in ["tetris-agent", "tetris-cli", "tetris-python"] {
        let all = graph.closure(package);
        assert!(!all.contains("tetris-gpu-server"), "{package}");
    }
    assert!(!graph.closure("tetris-node").contains("tetris-gpu-client"));
}

#[test]
fn packages_depend_only_in_the_agreed_direction() {
    let graph = Graph::read();
    let may: BTreeMap<_, _> = MAY.into_iter().collect();
    for (package, direct) in &graph.direct {
        let Some(allowed) = may.get(package.as_str()) else {
            panic!("{package} is new: say in this test what it may depend on");
        };
        for (name, dev) in direct
            .iter()
            .filter(|(name, _)| graph.members.contains(name))
        {
            let fine = *dev
                || name == "tetris-store-layout"
                || *allowed == ANYTHING
                || allowed.contains(&name.as_str());
            assert!(fine, "{package} must not depend on {name}");
        }
    }
}

/// The layout of the store counts: the cores use its names of objects.
#[test]
fn pure_packages_depend_on_pure_packages_only() {
    let graph = Graph::read();
    for package in PURE {
        let members = graph.direct[package]
            .iter()
            .filter(|(name, dev)| !dev && graph.members.contains(name));
        for (name, _) in members {
            let fine = name == "tetris-store-layout" || PURE.contains(&name.as_str());
            assert!(fine, "{package} depends on {name}");
        }
    }
}

#[test]
fn crash_points_are_not_in_what_is_shipped() {
    let graph = Graph::read();
    for package in graph.members.iter().filter(|name| *name != "tetris-tests") {
        let edges = "--edges=normal,features";
        let tree = cargo(&["tree", "--offline", "--locked", edges, "--package", package]);
        assert!(!tree.contains("crash-points"), "{package}\n{tree}");
    }
}

/// The packages of research use the product, and not the reverse.
#[test]
fn the_product_depends_on_nothing_of_research() {
    let metadata = |folder: &str| {
        let mut arguments = vec!["metadata", "--format-version=1", "--offline", "--no-deps"];
        let manifest = format!("{folder}/Cargo.toml");
        arguments.extend(["--manifest-path", &manifest]);
        let metadata: Value = serde_json::from_str(&cargo(&arguments)).unwrap();
        let packages = list(&metadata["packages"]).iter();
        let names = packages.map(|package| text(&package["name"]));
        names.collect::<BTreeSet<_>>()
    };
    let research = metadata("../research");
    assert!(research.len() > 3, "{research:?}");
    let graph = Graph::read();
    let all: BTreeSet<_> = graph.names.values().cloned().collect();
    assert_eq!(all.intersection(&research).next(), None);
}

/// Packages and images are made of named folders, of which none is research.
#[test]
fn no_package_or_image_contains_research() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for path in [
        "agent/python/pyproject.toml",
        "scaler/instance/pyproject.toml",
        "release/crates",
        "release/wheels",
        "deploy/debian/build",
        "deploy/images/build",
    ] {
        let text = std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        assert!(!text.contains("research"), "{path}");
    }
}

/// The fuzz targets have their own lock file, which no build here reads.
#[test]
fn the_lock_file_of_the_fuzz_targets_has_what_their_packages_depend_on() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/Cargo.lock");
    let lock = std::fs::read_to_string(path).unwrap();
    let line = |section: &str, begin: &str| {
        let mut lines = section.lines();
        let line = lines.find_map(|line| line.strip_prefix(begin));
        line.map(|name| name.trim_end_matches(['"', ',']).to_owned())
    };
    let locked: BTreeMap<_, _> = lock
        .split("[[package]]")
        .filter(|section| !section.contains("\nsource = "))
        .filter_map(|section| Some((line(section, "name = \"")?, section)))
        .collect();
    let metadata = cargo(&[
        "metadata",
        "--offline",
        "--locked",
        "--no-deps",
        "--format-version=1",
    ]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let mut seen = 0;
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]);
        let Some(section) = locked.get(&name) else {
            continue;
        };
        let direct = list(&package["dependencies"]).iter();
        // Those of tests are not built, and optional ones only with their features.
        for entry in direct.filter(|entry| entry["kind"].is_null() && entry["optional"] == false) {
            let dependency = text(&entry["name"]);
            let is_there = section.lines().any(|line| {
                let listed = line.trim().trim_matches(['"', ',']);
                listed.split(' ').next() == Some(dependency.as_str())
            });
            assert!(
                is_there,
                "{path}: {name} without {dependency}; run cargo fetch in fuzz/"
            );
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
