//! The example, as users run it.

use std::process::Command;

#[test]
fn a_reference_of_another_process_ends_with_it() {
    let tests = std::env::current_exe().unwrap();
    let example = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/references");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let output = Command::new(&example)
        .arg(folder.path().join("store"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "mapped by another process: Referenced\nafter its SIGKILL: Freed { bytes: 1048576 }\n"
    );
}
