//! A model path, or a sidecar beside it, that is no regular readable file ends in a clear error, or is
//! ignored. Nothing blocks.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tetris_tests::model::{fingerprint_of_file, small_specs, write};
use tetris_tests::process::Worker;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip::is_root;
use tetris_tests::task::{Job, LoadTask, Loaded, Task};
use tetris_tests::{skip, worker_exe};

const NOBODY: u32 = 65_534;

/// Loads in its own process, which is killed if it blocks.
fn load(scratch: &Scratch, path: &Path, uid: Option<u32>) -> Vec<Loaded> {
    let with_store = LoadTask::of(scratch.root(), path);
    let without = LoadTask {
        store: None,
        ..with_store.clone()
    };
    let whole = LoadTask {
        whole: true,
        ..with_store.clone()
    };
    let load = |task| {
        let job = Job {
            task: Task::Load(task),
            uid,
        };
        let mut worker = Worker::start(worker_exe!(), &job);
        worker.wait_ready();
        worker.go();
        worker.finish().result::<Loaded>()
    };
    vec![load(with_store), load(without), load(whole)]
}

fn assert_refused(scratch: &Scratch, path: &Path, uid: Option<u32>, reason: &str) {
    for loaded in load(scratch, path, uid) {
        let error = loaded.error.expect("an error");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            error.contains(name) && error.contains(reason),
            "unclear: {error}"
        );
    }
    assert!(scratch.store().objects().unwrap().objects.is_empty());
}

#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    assert_refused(&scratch, &path, None, "");
}

#[test]
fn a_device_is_refused() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("zeros");
    symlink("/dev/zero", &path).unwrap();
    assert_refused(&scratch, &path, None, "");
}

#[test]
fn a_directory_without_a_model_is_refused() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("directory");
    std::fs::create_dir(&path).unwrap();
    assert_refused(&scratch, &path, None, "");
}

#[test]
fn a_missing_file_is_an_error() {
    let scratch = Scratch::new().unwrap();
    assert_refused(&scratch, &scratch.model("missing"), None, "");
    let path = scratch.model("dangling");
    symlink("nowhere", &path).unwrap();
    assert_refused(&scratch, &path, None, "");
}

#[test]
fn an_unreadable_file_is_an_error() {
    if !is_root() {
        skip!("needs root to become another user");
    }
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("secret");
    write(&path, &small_specs(1, &[])).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(scratch.models(), Permissions::from_mode(0o755)).unwrap();
    assert_refused(&scratch, &path, Some(NOBODY), "Permission denied");
}

#[test]
fn a_sidecar_that_is_no_regular_file_is_ignored() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("model");
    write(&path, &small_specs(1, &[])).unwrap();
    let expected = fingerprint_of_file(&path).unwrap();
    let sidecar = tetris_agent::sidecar::path_of(&path);
    let check = |what: &str| {
        // Unknown, or the sidecar is not looked at.
        for (id, _) in scratch.store().identities().unwrap() {
            scratch.store().remove_identity(id).unwrap();
        }
        let loaded = load(&scratch, &path, None).remove(0);
        assert_eq!(loaded.error, None, "{what}");
        assert_eq!(loaded.fingerprint, expected, "{what}");
    };
    std::fs::create_dir(&sidecar).unwrap();
    check("directory");
    std::fs::remove_dir(&sidecar).unwrap();
    symlink(&sidecar, &sidecar).unwrap();
    check("a link to itself");
    std::fs::remove_file(&sidecar).unwrap();
    mkfifo(&sidecar, Mode::S_IRWXU).unwrap();
    check("pipe");
}
