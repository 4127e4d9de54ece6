//! The tree is one release at every commit: versions, published crates, changelog and fixtures agree.

use std::process::{Command, Output};

use tetris_tests::skip::say;
use tetris_tests::sources::repository;

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(repository().join("release/check"));
    command.args(arguments).output().unwrap()
}

#[test]
fn versions_crates_changelog_and_fixtures_agree() {
    let checked = check(&[]);
    let faults = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{faults}");
    for reason in faults
        .lines()
        .filter_map(|line| line.strip_prefix("SKIPPED: "))
    {
        say(reason);
    }
}

#[test]
fn a_tag_of_another_version_is_refused() {
    let checked = check(&["v999.0.0"]);
    assert_eq!(checked.status.code(), Some(1));
    let faults = String::from_utf8_lossy(&checked.stderr);
    assert!(faults.contains("tag v999.0.0: expected v"), "{faults}");
}

#[test]
fn emulators_for_wheels_of_other_architectures_are_recognized() {
    let tests = ["-m", "unittest", "discover", "--start-directory", "release"];
    let mut command = Command::new("python3");
    let output = command.args(tests).current_dir(repository()).output();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("OK"), "{told}");
    assert!(!told.contains("Ran 0 tests"), "{told}");
}

#[test]
fn the_images_of_a_release_are_listed() {
    let script = repository().join("deploy/images/build");
    let listed = Command::new(script).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = listed.lines().collect();
    assert!(
        names.len() >= 6 && names.contains(&"tetris-gateway"),
        "{names:?}"
    );
}
