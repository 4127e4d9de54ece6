//! Circles among modules, per crate. Modules that need each other can only be read, tested and moved together.

mod graph;
mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::circles::source::Modules;

#[test]
fn no_crate_has_a_circle_of_modules() {
    let mut circles = BTreeSet::new();
    let mut modules = 0;
    for (package, root) in library_roots() {
        let parsed = Modules::parse(&root);
        modules += parsed.len();
        for circle in graph::circles(&parsed) {
            circles.insert(format!("{package} {circle}"));
        }
    }
    assert!(modules > 500, "only {modules} modules found");
    assert!(
        circles.is_empty(),
        "circles of modules, with the folder's module and those in it that need each other: {circles:#?}"
    );
}

#[test]
fn circles_are_found_through_renames_reexports_and_paths_in_code() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file(
        "lib.rs",
        "mod a; mod b; mod c; mod d; mod free; pub use b::deep::Thing as Other; pub fn root() {}",
    );
    // a -> b through the crate's own re-export, b -> a by a path in code.
    file(
        "a.rs",
        "use crate::Other; pub fn f(_: Other) {} #[cfg(test)] mod tests { use crate::free; }",
    );
    file("b/mod.rs", "pub mod deep; mod side;");
    file(
        "b/deep.rs",
        "pub struct Thing; impl Thing { fn g() { crate::a::f(Thing); super::side::h() } }",
    );
    file("b/side.rs", "pub use super::deep::*; pub fn h() {}");
    // c -> d -> c by a glob and a macro's argument.
    file(
        "c.rs",
        "use crate::d::*; pub fn text() -> String { String::new() }",
    );
    file(
        "d.rs",
        "pub fn say() -> String { crate::root(); format!(\"{}\", crate::c::text()) }",
    );
    file("free.rs", "use crate::a::f;");
    let circles: Vec<String> = graph::circles(&Modules::parse(&dir.path().join("lib.rs")))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(circles, ["b: deep side", "crate: a b", "crate: c d"]);
}

/// Root files of the libraries and programs of this workspace, with their packages.
fn library_roots() -> Vec<(String, PathBuf)> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--locked",
        ])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut roots = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        for target in package["targets"].as_array().unwrap() {
            let kinds = target["kind"].as_array().unwrap();
            if kinds.iter().any(|kind| {
                ["lib", "bin", "cdylib", "rlib"].contains(&kind.as_str().unwrap_or_default())
            }) {
                roots.push((
                    package["name"].as_str().unwrap().to_owned(),
                    PathBuf::from(target["src_path"].as_str().unwrap()),
                ));
            }
        }
    }
    roots
}
