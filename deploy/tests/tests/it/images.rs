//! Images: those that manifests name are built, and from what is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::RENDERED;
use tetris_deploy_tests::objects::{Objects, text};
use tetris_node::csi::PythonConfig;

/// Images of others, which samples run as they are.
const OF_OTHERS: [&str; 1] = ["vllm/vllm-openai-cpu"];

/// The rows of a table in the script that builds them.
pub fn table(name: &str) -> Vec<Vec<String>> {
    let script = files::read("images/build");
    let (_, rest) = script.split_once(&format!("readonly {name}=\"\n")).unwrap();
    let (rows, _) = rest.split_once("\n\"\n").unwrap();
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect();
    rows.lines().map(words).collect()
}

#[test]
fn images_of_manifests_are_built_and_have_the_binary_that_is_started() {
    let prebuilt = table("PREBUILT");
    let binaries: BTreeMap<_, _> = prebuilt.iter().map(|row| (&*row[0], &*row[2])).collect();
    let from_source: Vec<_> = table("FROM_SOURCE")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    assert!(
        binaries
            .keys()
            .all(|image| from_source.iter().any(|other| other == image))
    );
    for (name, _) in RENDERED {
        for pods in Objects::golden(name).pods() {
            for container in pods.containers() {
                let image = text(&container["image"]);
                let is_built = from_source.iter().any(|other| other == image);
                // With a tag: without one it would be another image with each release.
                let is_of_others = image
                    .split_once(':')
                    .is_some_and(|(image, _)| OF_OTHERS.contains(&image));
                assert!(is_built || is_of_others, "{name}: `{image}` is not built");
                // An image without a tag would else be fetched at each start.
                assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{name}");
                if let Some(binary) = binaries.get(image) {
                    let path = format!("/usr/local/bin/{binary}");
                    assert_eq!(container["command"][0], path, "{name}");
                }
            }
        }
    }
}

/// Of `COPY [--from=STAGE] SOURCE... TARGET`: the stage and the sources.
fn copies(dockerfile: &str) -> Vec<(Option<String>, Vec<String>)> {
    let lines = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "));
    let copies = lines.map(|line| {
        let (flags, paths): (Vec<_>, Vec<_>) = line
            .split_whitespace()
            .partition(|word| word.starts_with("--"));
        let stage = flags
            .iter()
            .find_map(|flag| flag.strip_prefix("--from="))
            .map(str::to_owned);
        let (_, sources) = paths.split_last().unwrap();
        (
            stage,
            sources.iter().map(|source| (*source).to_owned()).collect(),
        )
    });
    copies.collect()
}

#[test]
fn what_dockerfiles_copy_is_there() {
    let root = files::deploy();
    let root = root.parent().unwrap();
    for row in table("FROM_SOURCE") {
        let (file, stage, context) = (&row[1], &row[2], &row[3]);
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let stages: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("FROM ")?.split_once(" AS "))
            .collect();
        let is_stage = |name: &str| stages.iter().any(|(_, stage)| *stage == name);
        assert!(
            stage == "-" || is_stage(stage),
            "{file}: no stage `{stage}`"
        );
        let copies = copies(&text);
        assert!(!copies.is_empty(), "{file}");
        for (from, sources) in copies {
            match from {
                Some(from) => assert!(is_stage(&from), "{file}: no stage `{from}`"),
                None => {
                    for source in sources {
                        let path = root.join(context).join(&source);
                        assert!(path.exists(), "{file}: no {}", path.display());
                    }
                }
            }
        }
    }
}

#[test]
fn packages_and_binaries_that_are_built_are_in_the_workspace() {
    let root = files::deploy();
    let manifests = [
        "reclaimer",
        "agent/cli",
        "deploy/webhook",
        "scaler",
        "scaler/gateway",
    ]
    .map(|folder| root.parent().unwrap().join(folder).join("Cargo.toml"));
    let texts = manifests
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    let all: String = texts.collect();
    for row in table("PREBUILT") {
        assert!(
            all.contains(&format!("name = \"{}\"", row[1])),
            "no package {}",
            row[1]
        );
        assert!(
            all.contains(&format!("[[bin]]\nname = \"{}\"", row[2])),
            "no binary {}",
            row[2]
        );
    }
}

#[test]
fn only_the_daemon_runs_as_root() {
    for row in table("PREBUILT") {
        let expected = if row[2] == "tetris-node" {
            "0:0"
        } else {
            "65532:65532"
        };
        assert_eq!(row[3], expected, "{}", row[0]);
        let sources = table("FROM_SOURCE");
        let source = sources.iter().find(|source| source[0] == row[0]).unwrap();
        let text = files::read(source[1].strip_prefix("deploy/").unwrap());
        assert!(
            text.contains(&format!("\nUSER {expected}\n")),
            "{}",
            source[1]
        );
        assert!(
            text.contains(&format!("ENTRYPOINT [\"/usr/local/bin/{}\"]", row[2])),
            "{}",
            source[1]
        );
    }
}

/// The same program is in an image whether it was built here or in Docker.
#[test]
fn programs_have_one_profile_in_both_ways_of_building() {
    let profiles = table("OWN_PROFILE");
    for row in table("PREBUILT") {
        let sources = table("FROM_SOURCE");
        let source = sources.iter().find(|source| source[0] == row[0]).unwrap();
        let text = files::read(source[1].strip_prefix("deploy/").unwrap());
        let profile = profiles.iter().find(|profile| profile[0] == row[0]);
        let profile = profile.map_or("image", |profile| &profile[1]);
        let used = text.matches("--profile ").count();
        let wanted = text.matches(&format!("--profile {profile} ")).count();
        assert!(used > 0 && used == wanted, "{}: {profile}", source[1]);
    }
}

/// The driver is a library, and a static program loads none.
#[test]
fn the_daemon_for_gpus_alone_is_linked_dynamically() {
    for row in table("PREBUILT") {
        let expected = if row[0] == "tetris-node-gpu" {
            "dynamic"
        } else {
            "static"
        };
        assert_eq!(row[4], expected, "{}", row[0]);
    }
    let text = files::read("images/node.Dockerfile");
    let (_, gpu) = text.split_once("FROM build AS build-gpu").unwrap();
    let (gpu, _) = gpu.split_once("FROM scratch").unwrap();
    assert!(!gpu.contains("crt-static") && !text.contains("ENV RUSTFLAGS"));
}

/// Arguments that name an image, with what a build takes without them.
fn bases() -> Vec<(String, String)> {
    let file = files::read("images/base-images");
    let rows = file.lines().filter(|line| !line.starts_with('#'));
    let words = rows.map(|row| {
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    words.map(|row| (row[0].clone(), row[1].clone())).collect()
}

#[test]
fn images_are_built_on_nothing_but_images_that_can_be_pinned() {
    let (root, bases) = (files::deploy(), bases());
    let mut used = Vec::new();
    for row in table("FROM_SOURCE") {
        let text = std::fs::read_to_string(root.parent().unwrap().join(&row[1])).unwrap();
        let defaults: BTreeMap<_, _> = text
            .lines()
            .filter_map(|line| line.strip_prefix("ARG ")?.split_once('='))
            .collect();
        let sources = text.lines().filter_map(|line| line.strip_prefix("FROM "));
        let mut stages = vec!["scratch"];
        for from in sources {
            let (image, stage) = from.split_once(" AS ").unwrap_or((from, ""));
            let argument = image
                .strip_prefix("${")
                .and_then(|rest| rest.strip_suffix('}'));
            match argument {
                // Ours, or the user's choice.
                Some("BASE" | "AGENT" | "SERVER") => {}
                Some(argument) => {
                    let base = bases.iter().find(|(name, _)| name == argument);
                    let (_, base) = base.unwrap_or_else(|| panic!("{}: {argument}", row[1]));
                    assert_eq!(defaults[argument], base, "{}", row[1]);
                    used.push(argument.to_owned());
                }
                None => assert!(stages.contains(&image), "{}: FROM {image}", row[1]),
            }
            stages.push(stage);
        }
    }
    assert!(
        bases.iter().all(|(name, _)| used.contains(name)),
        "{used:?}"
    );
}

#[test]
fn digests_are_written_for_all_images_or_for_none() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for name in ["pin", "base-images"] {
        std::fs::copy(
            files::deploy().join("images").join(name),
            folder.path().join(name),
        )
        .unwrap();
    }
    // A registry that knows some images.
    let registry = |script: &str| {
        let skopeo = folder.path().join("skopeo");
        std::fs::write(&skopeo, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&skopeo, PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        Command::new(folder.path().join("pin"))
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .output()
            .unwrap()
    };
    let read = || std::fs::read_to_string(folder.path().join("base-images")).unwrap();
    let before = read();
    let output = registry(r#"case "$3" in *python*) exit 1 ;; *) echo "manifest of $3" ;; esac"#);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("python"),
        "{errors}"
    );
    assert_eq!(read(), before);
    for _twice in 0..2 {
        let output = registry(r#"echo "manifest of $3""#);
        assert!(output.status.success(), "{output:?}");
        let after = read();
        let rows: Vec<_> = after
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert_eq!(rows.len(), bases().len());
        for row in rows {
            let words: Vec<_> = row.split_whitespace().collect();
            let digest = words[2].strip_prefix("sha256:").unwrap();
            assert!(words.len() == 3 && digest.len() == 64, "{row}");
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "nothing else is left");
}

/// A length that wraps around would be worse than the end of a program.
#[test]
fn what_is_shipped_checks_its_arithmetic() {
    let manifest = files::deploy().parent().unwrap().join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let (_, release) = manifest.split_once("\n[profile.release]\n").unwrap();
    let (release, _) = release.split_once("\n[").unwrap();
    assert!(release.lines().any(|line| line == "overflow-checks = true"));
    let profiles = table("OWN_PROFILE").into_iter().map(|row| row[1].clone());
    for name in profiles.chain(["image".to_owned()]) {
        let (_, profile) = manifest
            .split_once(&format!("\n[profile.{name}]\n"))
            .unwrap();
        assert!(profile.starts_with("inherits = \"release\"\n"), "{name}");
    }
    assert!(!manifest.contains("overflow-checks = false"));
}

#[test]
fn the_python_package_lies_where_the_daemon_and_pods_look_for_it() {
    let source = PythonConfig::default().source;
    let source = source.to_str().unwrap();
    let dockerfile = files::read("images/node.Dockerfile");
    let copy = format!("COPY --from=python-package /python {source}\n");
    let copies = dockerfile.matches(&copy).count();
    assert_eq!(copies, 2, "images from source");
    let build = files::read("images/build");
    assert!(
        build.contains(&format!("\"$root{source}\"")),
        "images of binaries"
    );
    let script = files::read("images/python-package");
    let in_pods = tetris_webhook::inject::DEFAULT_PYTHON_PATH;
    assert!(script.contains(&format!("SEEN_AT = \"{in_pods}\"")));
}

/// Makes a wheel of these files, and unpacks it as images have it; returns the folder, or the error.
fn unpacked(dir: &Path, wheel: &str, names: &[&str]) -> Result<PathBuf, String> {
    let (wheel, folder) = (dir.join(wheel), dir.join("volume"));
    let zip = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as zip:\n  for name in sys.argv[2:]: zip.writestr(name, 'x = 1\\n')";
    let mut python = Command::new("python3");
    let made = python.args(["-c", zip]).arg(&wheel).args(names).status();
    assert!(made.unwrap().success());
    let script = files::deploy().join("images/python-package");
    let mut script = Command::new(script);
    let done = script.arg(&folder).arg("--wheel").arg(&wheel).output();
    let done = done.unwrap();
    if done.status.success() {
        return Ok(folder);
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn the_package_of_pods_is_that_of_the_wheel_without_its_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let wheel = "tetris_store-0.1.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";
    let names = [
        "tetris/__init__.py",
        "tetris/_native.abi3.so",
        "tetris/_native.pyi",
        "tetris/py.typed",
        "tetris_store-0.1.0.dist-info/METADATA",
        "tetris_store-0.1.0.data/purelib/tetris_store_patch.pth",
    ];
    let folder = unpacked(dir.path(), wheel, &names).unwrap();
    let entries = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "__pycache__").collect();
        names.sort();
        names
    };
    let package = "tetris_store-0.1.0-cp311-abi3-manylinux_2_17_x86_64";
    let expected = ["sitecustomize.py", "tetris_injection.py", package];
    assert_eq!(entries(&folder), expected);
    assert_eq!(entries(&folder.join(package)), ["tetris"]);
    let files = entries(&folder.join(package).join("tetris"));
    assert_eq!(files, ["__init__.py", "_native.abi3.so"]);
    // Interpreters of the version that built it find it compiled.
    assert!(folder.join("__pycache__").is_dir());
    let error = unpacked(dir.path(), "other-1-py3-none-any.whl", &names).unwrap_err();
    assert!(
        error.contains("expected a wheel of tetris_store"),
        "{error}"
    );
}
