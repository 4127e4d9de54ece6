//! A release as a remote base: manifests from a repository by tag, and images by digest.

use std::fs;
use std::path::Path;
use std::process::Command;

use tetris_deploy_tests::skipped::skipped;
use tetris_deploy_tests::{files, kustomize};

const DIGEST: &str = "sha256:00000000000000000000000000000000000000000000000000000000000000ff";

fn git(repository: &Path, arguments: &[&str]) {
    let author = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    let ran = Command::new("git")
        .current_dir(repository)
        .args(author)
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {errors}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_tag_gives_the_same_manifests_with_images_by_digest() {
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !kustomize::is_there() || !has_git {
        return skipped("no kubectl or no git");
    }
    let dir = tempfile::tempdir().unwrap();
    let (repository, user) = (dir.path().join("repository"), dir.path().join("user"));
    for folder in ["base", "overlays", "components"] {
        copy(
            &files::deploy().join(folder),
            &repository.join("deploy").join(folder),
        );
    }
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message", "release"]);
    git(&repository, &["tag", "v0.1.0"]);
    // What comes later is not in the release.
    fs::remove_dir_all(repository.join("deploy")).unwrap();
    fs::create_dir_all(user.join("images")).unwrap();
    let base = format!(
        "file://{}//deploy/overlays/node?ref=v0.1.0",
        repository.display()
    );
    let kustomization = format!("resources: [\"{base}\"]\ncomponents: [images]\n");
    fs::write(user.join("kustomization.yaml"), kustomization).unwrap();
    // As release/images writes it.
    let component = format!(
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n  - name: tetris-node\n    newName: registry.example.com/tetris-node\n    digest: {DIGEST}\n"
    );
    fs::write(user.join("images/kustomization.yaml"), component).unwrap();
    let rendered = Command::new("kubectl")
        .arg("kustomize")
        .arg(&user)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success(), "{errors}");
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    let image = format!("image: registry.example.com/tetris-node@{DIGEST}");
    assert!(rendered.matches(&image).count() >= 3, "{rendered}");
    let overlay = kustomize::render("overlays/node").unwrap();
    assert_eq!(rendered.replace(&image, "image: tetris-node"), overlay);
}
