//! The script `tests/gpu`, with shell scripts in place of the programs of a pack. `tests/gpu-bare`
//! runs it with the programs themselves.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::site::{Run, run};
use crate::taken::list;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");

/// A pack, and the results of its run.
struct Pack(TempDir);

impl Pack {
    /// A pack whose mirror tests are this shell script, given the name of a test.
    fn new(test: &str) -> Self {
        let pack = Self(tempfile::tempdir().unwrap());
        fs::create_dir(pack.folder()).unwrap();
        for name in ["gpu", "gpu-probe"] {
            fs::copy(format!("{SCRIPTS}/{name}"), pack.folder().join(name)).unwrap();
        }
        let names = "cuda::client: test\\ncuda::cuda_one: test\\ncuda::cuda_two: test\\n";
        let listing = |names: &str, rest: &str| {
            format!("case \"$*\" in *--list*) printf '{names}' ;; *) {rest} ;; esac")
        };
        pack.write("gpu-mirror.test", &listing(names, test));
        pack.write(
            "gpu-bench.test",
            &listing("device::cuda_all: test\\n", "true"),
        );
        // Steps so far, as others see them while a step runs.
        for program in ["tetris", "gpu-bench"] {
            pack.write(
                program,
                r#"cp "$out/steps.json" "$out/seen.json"; echo "$@""#,
            );
        }
        pack.write("tetris-node", "exec sleep 1000");
        fs::write(pack.folder().join("gpu-pack.txt"), "a trial").unwrap();
        let sums = "cd \"$1\" && sha256sum $(find . -type f) >../sums && mv ../sums SHA256SUMS";
        let mut summed = Command::new("bash");
        summed.args(["-c", sums, "bash"]).arg(pack.folder());
        assert!(summed.status().unwrap().success());
        pack
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("pack")
    }

    fn results(&self) -> PathBuf {
        self.0.path().join("results")
    }

    fn write(&self, name: &str, script: &str) {
        let path = self.folder().join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Command of the script in the pack, without Python: what needs it is skipped.
    fn command(&self) -> Command {
        let mut command = Command::new("bash");
        command.arg(self.folder().join("gpu")).stdin(Stdio::null());
        command.env("TETRIS_GPU_OUT", self.results());
        command.env("TETRIS_GPU_PYTHON", "/no/such/python");
        command
    }

    fn run(&self) -> Run {
        run(&mut self.command())
    }

    fn steps(&self) -> BTreeMap<String, Value> {
        steps(&self.results().join("steps.json"))
    }
}

/// The steps in a document, by name.
fn steps(path: &Path) -> BTreeMap<String, Value> {
    let document: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["schema"], "tetris-gpu-steps/1");
    let steps = list(&document["steps"]).iter();
    steps
        .map(|step| (step["step"].as_str().unwrap().to_owned(), step.clone()))
        .collect()
}

/// Names of the steps with an outcome, in the order of the alphabet.
fn with_outcome<'a>(steps: &'a BTreeMap<String, Value>, outcome: &str) -> Vec<&'a str> {
    let named = steps.iter().filter(|(_, step)| step["outcome"] == outcome);
    named.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_step_that_fails_ends_no_run_and_is_in_its_status() {
    let pack = Pack::new("case \"$*\" in *cuda_one*) echo 'found \"7\"'; exit 101 ;; esac");
    pack.run().expect(1);
    let steps = pack.steps();
    assert_eq!(with_outcome(&steps, "failed"), ["cuda::cuda_one"]);
    let failed = &steps["cuda::cuda_one"];
    assert_eq!(failed["status"], 101);
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("found \"7\""), "{reason}");
    let passed = with_outcome(&steps, "passed");
    for later in [
        "cuda::cuda_two",
        "bench-attach",
        "daemon",
        "device::cuda_all",
    ] {
        assert!(passed.contains(&later), "{later}: {steps:?}");
    }
    // Not the ones that other tests start.
    assert!(!steps.contains_key("cuda::client"), "{steps:?}");
    let skipped = with_outcome(&steps, "skipped");
    assert!(
        skipped.contains(&"probe") && skipped.contains(&"python"),
        "{steps:?}"
    );
    let said = fs::read_to_string(pack.results().join("cuda..cuda_one.txt")).unwrap();
    assert_eq!(said, "found \"7\"\n");
}

#[test]
fn a_run_without_a_failure_succeeds_and_steps_are_kept_as_soon_as_they_end() {
    let pack = Pack::new("true");
    let run = pack.run().expect(0);
    assert!(run.stdout.contains("passed"), "{}", run.stdout);
    // As a program of a step has seen it: the daemon's is the last.
    let seen = steps(&pack.results().join("seen.json"));
    assert!(
        seen.contains_key("bench-models") && !seen.contains_key("daemon"),
        "{seen:?}"
    );
    let bench = fs::read_to_string(pack.results().join("bench-transfers.txt")).unwrap();
    for part in ["--keep", "--only transfers", "--rounds 3", "--store-dir"] {
        assert!(bench.contains(part), "{part}: {bench}");
    }
    // Again into the same directory.
    pack.run().expect(0);
}

#[test]
fn arguments_go_to_the_benchmark() {
    let pack = Pack::new("true");
    run(pack.command().args(["--only", "family", "--bytes", "1G"])).expect(0);
    let steps = pack.steps();
    assert!(!steps.contains_key("bench-attach"), "{steps:?}");
    let bench = fs::read_to_string(pack.results().join("bench-chosen.txt")).unwrap();
    assert!(bench.contains("--only family --bytes 1G"), "{bench}");
    assert!(!bench.contains("--rounds"), "{bench}");
}

#[test]
fn a_run_without_time_records_every_step_that_it_had_none_for() {
    let pack = Pack::new("exec sleep 1000");
    run(pack.command().env("TETRIS_GPU_LIMIT_S", "4")).expect(1);
    let steps = pack.steps();
    for name in ["cuda::cuda_one", "cuda::cuda_two", "bench-load", "daemon"] {
        assert_ne!(steps[name]["outcome"], "passed", "{steps:?}");
    }
    let reason = steps["bench-load"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("no time is left of the run's 4 s"),
        "{reason}"
    );
}

#[test]
fn a_pack_that_was_damaged_on_its_way_is_named() {
    let pack = Pack::new("true");
    pack.write("gpu-bench", "true # changed");
    pack.run().expect(1);
    assert_eq!(with_outcome(&pack.steps(), "failed"), ["files"]);
    let said = fs::read_to_string(pack.results().join("files.txt")).unwrap();
    assert!(said.contains("./gpu-bench: FAILED"), "{said}");
}

#[test]
fn directories_of_others_are_left_alone() {
    let pack = Pack::new("true");
    let mine = pack.0.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("notes.txt"), "").unwrap();
    let out = run(pack.command().env("TETRIS_GPU_OUT", &mine)).expect(1);
    assert!(out.stderr.contains("TETRIS_GPU_OUT"), "{}", out.stderr);
    let script = || {
        let mut command = Command::new("bash");
        command.arg(format!("{SCRIPTS}/gpu")).stdin(Stdio::null());
        command
    };
    let packed = run(script().arg("--pack").arg(&mine)).expect(1);
    assert!(
        packed.stderr.contains("neither empty nor an earlier pack"),
        "{packed:?}"
    );
    let no_pack = run(script().env("TETRIS_GPU_PREBUILT", &mine)).expect(1);
    assert!(
        no_pack.stderr.contains("expected gpu-pack.txt in"),
        "{no_pack:?}"
    );
    assert!(mine.join("notes.txt").exists());
}

/// A function of glibc 2.36, where this system has it.
#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn programs_for_newer_systems_are_refused() {
    let name = "programs_for_newer_systems_are_refused";
    let folder = tempfile::tempdir().unwrap();
    let compile = |file: &str, source: &str| {
        let path = folder.path().join(file);
        fs::write(path.with_extension("c"), source).unwrap();
        let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        command.arg(path.with_extension("c")).arg("-o").arg(&path);
        command.output().unwrap().status.success().then_some(path)
    };
    let check = |path: &Path| {
        let mut command = Command::new("bash");
        command
            .arg(format!("{SCRIPTS}/gpu"))
            .arg("--check")
            .arg(path);
        run(command.stdin(Stdio::null()))
    };
    if Command::new("readelf").arg("-v").output().is_err() {
        println!("SKIPPED: {name}: no readelf");
        return;
    }
    let old = compile("old", "int main(void) { return 0; }").unwrap();
    check(&old).expect(0);
    let source = "#include <stdlib.h>\nint main(void) { return arc4random() == 7; }";
    let Some(new) = compile("new", source) else {
        println!("SKIPPED: {name}: this C library has no arc4random");
        return;
    };
    let refused = check(&new).expect(1);
    for part in [
        "glibc 2.34 or older, found GLIBC_2.36",
        "build on a system whose C library is older",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}
