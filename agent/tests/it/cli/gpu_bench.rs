//! `tetris gpu-bench` on host memory. What it measures is tested in its own package.

use crate::cli::site::{run, tetris};

#[test]
fn its_processes_are_this_command() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = tetris();
    command.args([
        "gpu-bench",
        "--simulated",
        "--bytes=16M",
        "--chunk-bytes=2M",
    ]);
    command.args(["--rounds=2", "--only=eviction", "--store-dir"]);
    command.arg(place.path());
    let text = run(&mut command).expect(0).stdout;
    assert!(
        text.contains("eviction: ") && text.contains("SIMULATED"),
        "{text}"
    );
    let report = run(command.args(["--format", "json"])).expect(0).json();
    assert_eq!(report["measures"][0]["outcome"], "measured", "{report}");
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

#[test]
fn errors_have_the_codes_of_the_other_commands() {
    let gpu_bench = |arguments: &[&str]| run(tetris().arg("gpu-bench").args(arguments));
    let usage = gpu_bench(&["--bytes=8GB"]).expect(2);
    assert!(usage.stderr.contains("--bytes"), "{usage:?}");
    let model = gpu_bench(&["--simulated", "--model=/proc/self/comm"]).expect(4);
    assert!(
        model.stderr.contains("no model to measure with"),
        "{model:?}"
    );
    let room = gpu_bench(&["--simulated", "--bytes=900G"]).expect(1);
    assert!(room.stderr.contains("--store-dir"), "{room:?}");
}
