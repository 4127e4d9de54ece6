//! The store used when no one names one, in a mount namespace with its own /run and /dev/shm.

use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;

use crate::causes::NOBODY;
use crate::site::{Run, run, skipped};
use tetris_test_support::models::{bytes, settle, write_f32};

/// Runs a script as root of a namespace where no store is. `$T` is the command, `$U` the command as
/// another user, `$M` a model.
fn in_namespace(model: &Path, script: &str) -> Option<Run> {
    if !geteuid().is_root() {
        skipped("needs root, to be two users with another /dev/shm");
        return None;
    }
    let prepare = "\
set -e
mount -t tmpfs none /run
mount -t tmpfs -o mode=1777 none /dev/shm
mkdir -p /run/tetris/store
cp \"$1\" /run/tetris-program
cp \"$2\" /run/model.safetensors
chmod 644 /run/model.safetensors
sleep 0.2
T=/run/tetris-program M=/run/model.safetensors
U=\"setpriv --reuid $3 --regid $3 --clear-groups $T\"
unset TETRIS_STORE
";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c"]);
    unshare.arg(format!("{prepare}{script}")).arg("sh");
    unshare
        .arg(env!("CARGO_BIN_EXE_tetris"))
        .arg(model)
        .arg(NOBODY.to_string());
    unshare.current_dir("/");
    let tried = Command::new("unshare").args(["--mount", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("cannot make a mount namespace");
        return None;
    }
    Some(run(&mut unshare))
}

fn model() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write_f32(&path, &[("w".to_owned(), bytes(1, 1_000_000))]);
    settle(&path);
    (dir, path)
}

#[test]
fn a_user_s_own_store_is_used_beside_root_s_that_no_daemon_serves() {
    let (_dir, model) = model();
    let script = "\
$T init --size 64MiB 2>&1
echo; echo BEFORE
$U load $M --format json
echo OWN
$U init 2>&1
$U load $M --format json
echo ROOT
$T load $M --format json
";
    let Some(run) = in_namespace(&model, script) else {
        return;
    };
    let run = run.expect(0);
    let after = |mark: &str| run.stdout.split_once(mark).unwrap().1.to_owned();
    let json = |mark: &str| {
        let text = after(mark);
        let line = text
            .lines()
            .find(|line| line.starts_with('{'))
            .unwrap()
            .to_owned();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    let before = json("BEFORE\n");
    assert_eq!(before["store"], "/run/tetris/store");
    assert_eq!(before["store_because"], "mounted-readable");
    assert_eq!(before["models"][0]["private_cause"], "not-mine", "{before}");
    // What init makes is used, and its message names it.
    let said = after("OWN\n");
    assert!(
        said.contains("used by default  /dev/shm/tetris\nbecause "),
        "{said}"
    );
    let status = json("OWN\n");
    assert_eq!(status["store"], "/dev/shm/tetris");
    assert_eq!(status["store_because"], "own-writable");
    assert_eq!(status["models"][0]["bytes_private"], 0, "{status}");
    let root = json("ROOT\n");
    assert_eq!(root["store"], "/run/tetris/store");
    assert_eq!(root["store_because"], "mounted-writable");
}

#[test]
fn a_store_that_is_not_the_default_is_said_to_be_none_by_init() {
    let (_dir, model) = model();
    let script = "\
$T init --size 64MiB >/dev/null 2>&1
$T init /dev/shm/other --no-mount
";
    let Some(run) = in_namespace(&model, script) else {
        return;
    };
    let run = run.expect(0);
    let note = "processes use this store only where it is named, else `/run/tetris/store`";
    assert!(run.stderr.contains(note), "{run:?}");
    assert!(
        run.stderr.contains("export TETRIS_STORE=/dev/shm/other"),
        "{run:?}"
    );
}
