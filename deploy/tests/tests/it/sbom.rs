//! Bills of materials: what images are made of, as `deploy/images/sbom` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::skipped::skipped;

use crate::images::table;

/// Exit code of the validator without Python, or if it cannot fetch the schema.
const CANNOT: i32 = 77;

fn sbom(arguments: &[&str]) -> Output {
    let script = files::deploy().join("images/sbom");
    Command::new(script).args(arguments).output().unwrap()
}

fn written(arguments: &[&str]) -> Value {
    let output = sbom(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Names of the linked crates.
fn linked(bill: &Value) -> BTreeSet<&str> {
    let components = list(bill, "components").iter();
    let required = components.filter(|component| component["scope"] == "required");
    required.map(|component| text(component, "name")).collect()
}

/// Checksums by name and version, from Cargo.lock.
fn lock() -> BTreeMap<(String, String), String> {
    let root = files::deploy();
    let lock = std::fs::read_to_string(root.parent().unwrap().join("Cargo.lock")).unwrap();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| {
            let value = line.strip_prefix(&format!("{name} = \""))?;
            value.strip_suffix('"')
        });
        line.unwrap_or_default().to_owned()
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .map(|package| {
            let crate_of = (field(package, "name"), field(package, "version"));
            (crate_of, field(package, "checksum"))
        })
        .collect()
}

#[test]
fn each_image_has_a_bill_of_all_crates_that_are_linked() {
    let (lock, folder) = (lock(), tempfile::tempdir().unwrap());
    let mut paths = Vec::new();
    for row in table("PREBUILT") {
        let (image, package, binary) = (&row[0], &row[1], &row[2]);
        let static_flag = if row[4] == "static" {
            &["--static"][..]
        } else {
            &[]
        };
        let arguments = [&["--package", package.as_str()][..], static_flag].concat();
        let bill = written(&arguments);
        if binary == "tetris" {
            assert_eq!(written(&arguments), bill, "twice the same");
        }
        assert_eq!(text(&bill["metadata"]["component"], "name"), package);

        let mut refs = BTreeSet::new();
        refs.insert(text(&bill["metadata"]["component"], "bom-ref"));
        for component in list(&bill, "components") {
            assert!(refs.insert(text(component, "bom-ref")), "{component}");
            assert!(!list(component, "licenses").is_empty(), "{component}");
            if !text(component, "purl").starts_with("pkg:cargo/") {
                continue;
            }
            let of = (text(component, "name"), text(component, "version"));
            let checksum = &lock[&(of.0.to_owned(), of.1.to_owned())];
            let hash = text(&component["hashes"][0], "content");
            assert_eq!(hash, checksum, "{component}");
        }
        for node in list(&bill, "dependencies") {
            assert!(refs.contains(text(node, "ref")), "{node}");
            let needs = list(node, "dependsOn").iter();
            assert!(
                needs
                    .clone()
                    .all(|need| refs.contains(need.as_str().unwrap()))
            );
        }

        let linked = linked(&bill);
        for needed in ["tetris-store-layout", "libc", "rust-std", "memchr"] {
            let expected = needed != "tetris-store-layout" || package != "tetris-webhook";
            assert_eq!(linked.contains(needed), expected, "{image}: {needed}");
        }
        // Macros and build scripts are named, and are no part of the program.
        assert!(!linked.contains("serde_derive") && !linked.contains("proptest"));
        assert_eq!(linked.contains("glibc"), row[4] == "static", "{image}");

        let path = folder.path().join(format!("{image}.cdx.json"));
        std::fs::write(&path, bill.to_string()).unwrap();
        paths.push((path, binary.clone()));
    }
    let paths: Vec<&Path> = paths.iter().map(|(path, _)| path.as_path()).collect();
    valid(&paths, folder.path());
}

/// Checks documents against the schema, and that the validator finds a wrong one.
fn valid(paths: &[&Path], folder: &Path) {
    let validate = |paths: &[&Path]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("validate-sbom");
        Command::new(script).args(paths).output().unwrap()
    };
    let output = validate(paths);
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT) {
        return skipped(said.trim());
    }
    assert!(output.status.success(), "{said}");
    let wrong = folder.join("wrong.json");
    let text = std::fs::read_to_string(paths[0]).unwrap();
    std::fs::write(&wrong, text.replacen("\"library\"", "\"crate\"", 1)).unwrap();
    let output = validate(&[&wrong]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// A program that names the sources of these crates, as those of panics do.
fn program(folder: &Path, crates: &[&str]) -> PathBuf {
    let path = folder.join("program");
    let places = crates.iter().map(|entry| {
        format!("\0/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/{entry}/src/lib.rs\0")
    });
    std::fs::write(&path, places.collect::<String>()).unwrap();
    path
}

#[test]
fn a_program_with_code_of_a_crate_that_is_not_listed_has_no_bill() {
    let folder = tempfile::tempdir().unwrap();
    let lock = lock();
    let version = |name: &str| {
        let mut versions = lock.keys().filter(|(of, _)| of == name);
        versions.next_back().unwrap().1.clone()
    };
    let package = ["--package", "tetris-webhook", "--binary"];
    let listed = format!("memchr-{}", version("memchr"));
    let path = program(folder.path(), &[&listed]);
    let bill = written(&[&package[..], &[path.to_str().unwrap()]].concat());
    let hashes = &bill["metadata"]["component"]["hashes"];
    assert_eq!(text(&hashes[0], "alg"), "SHA-256");

    let other = format!("proptest-{}", version("proptest"));
    let path = program(folder.path(), &[&listed, &other]);
    let output = sbom(&[&package[..], &[path.to_str().unwrap()]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("proptest"),
        "{errors}"
    );
}

/// Programs of this build have the features of the whole workspace, and so can have more crates than
/// those of images; none may have fewer.
#[test]
fn programs_of_this_build_name_only_crates_that_cargo_lists() {
    let built = std::env::current_exe().unwrap();
    let built = built.ancestors().nth(2).unwrap().to_owned();
    let mut looked_at = 0;
    for row in table("PREBUILT") {
        let path = built.join(&row[2]);
        if row[4] != "static" || !path.exists() {
            continue;
        }
        let others: Vec<_> = table("PREBUILT")
            .into_iter()
            .flat_map(|other| ["--built-with".to_owned(), other[1].clone()])
            .collect();
        let mut arguments = vec![
            "--package",
            row[1].as_str(),
            "--binary",
            path.to_str().unwrap(),
        ];
        arguments.extend(others.iter().map(String::as_str));
        written(&arguments);
        looked_at += 1;
    }
    if looked_at == 0 {
        skipped("no program is built; `cargo build --workspace` builds them");
    }
}
