//! The values that a release writes name its images by their digests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::text;

use super::{folder, helm};

const REGISTRY: &str = "registry.example.com/team";
const IMAGES: [&str; 7] = [
    "tetris-node",
    "tetris-node-gpu",
    "tetris-webhook",
    "tetris-scaler",
    "tetris-gateway",
    "tetris-agent",
    "tetris-instance",
];
/// Docker, as far as the script asks it: any image has the digest of its last letter.
const DOCKER: &str = r#"#!/usr/bin/env bash
[ "$1" = push ] && exit
image=${!#}; image=${image%:*}
printf '%s@sha256:%064d\n' "$image" "'${image: -1}"
"#;

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_release_writes_the_digests_of_all_images_as_values() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    program(
        &root.join("release/images"),
        &files::read("../release/images"),
    );
    program(&root.join("deploy/images/build"), "#!/bin/sh\n");
    program(&root.join("bin/docker"), DOCKER);
    fs::copy(
        files::deploy().join("../Cargo.toml"),
        root.join("Cargo.toml"),
    )
    .unwrap();
    let target = root.join("target");
    fs::create_dir_all(target.join("bills")).unwrap();
    for image in IMAGES {
        fs::write(target.join(format!("bills/{image}.cdx.json")), "{}").unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(root.join("release/images"))
        .arg(REGISTRY)
        .args(IMAGES)
        .env("PATH", format!("{}:{path}", root.join("bin").display()))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let values = fs::read_to_string(target.join("release-images/values.yaml")).unwrap();
    assert_eq!(values.matches("sha256:").count(), IMAGES.len(), "{values}");

    let Some(helm) = helm() else { return };
    let values = format!(
        "{values}webhook: {{enabled: true}}\nscaler: {{enabled: true}}\ngateway: {{enabled: true}}\n"
    );
    let objects = helm.objects(&folder(), "tetris-system", &values).unwrap();
    for pods in objects.pods() {
        for container in pods.containers() {
            let image = text(&container["image"]);
            let name = image.strip_prefix(REGISTRY).unwrap_or_default();
            assert!(name.contains("@sha256:"), "{}: {image}", pods.name());
        }
    }
}
