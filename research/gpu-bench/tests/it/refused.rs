//! A measure that cannot be taken gives one clear message.

use std::fs;

use tetris_gpu_device::cuda::device_count;

use crate::site::{Site, bare, run};

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let site = Site::new();
    for (argument, part) in [
        ("--bytes=1M", "2MiB to 1TiB"),
        ("--bytes=8GB", "powers of 1024"),
        ("--bytes=", "expected a size"),
        ("--rounds=0", "0"),
        ("--processes=61", "61"),
        ("--chunk-bytes=3M", "multiple of 2MiB"),
        ("--chunk-bytes=0", "multiple of 2MiB"),
        ("--transfer-bytes=0", "at least 1"),
        ("--only=nothing", "possible values"),
        ("--device=x", "invalid"),
    ] {
        let run = run(site.command().arg(argument)).expect(2);
        assert!(run.stderr.contains(part), "{argument}: {}", run.stderr);
    }
    for pair in [
        ["--simulated", "--device=1"],
        ["--model=file", "--bytes=2M"],
    ] {
        let run = run(site.command().args(pair)).expect(2);
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
    assert!(site.files().is_empty());
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn a_machine_without_a_driver_gets_one_message_and_the_way_on() {
    if let Ok(count) = device_count() {
        println!(
            "SKIPPED: a_machine_without_a_driver_gets_one_message_and_the_way_on: {count} devices here"
        );
        return;
    }
    let site = Site::new();
    let run = run(&mut site.command()).expect(1);
    assert_eq!(
        run.stderr.matches("no usable CUDA driver").count(),
        1,
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("--simulated"), "{}", run.stderr);
    assert!(run.stdout.is_empty() && site.files().is_empty());
}

#[test]
fn what_has_no_room_is_refused_before_anything_is_written() {
    let site = Site::new();
    let run = run(site.command().args(["--simulated", "--bytes=900G"])).expect(1);
    assert!(run.stderr.contains("free space in"), "{}", run.stderr);
    assert!(run.stderr.contains("--bytes"), "{}", run.stderr);
    assert!(site.files().is_empty());
}

#[test]
fn a_store_goes_onto_a_tmpfs_that_is_there() {
    let site = Site::new();
    let nowhere = site.path().join("nowhere");
    let on_host = || {
        let mut command = bare();
        command.args(["--simulated", "--bytes=2M", "--store-dir"]);
        command
    };
    let refused = run(on_host().arg(&nowhere)).expect(1);
    assert!(refused.stderr.contains("nowhere"), "{refused:?}");
    let on_disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on_disk_run = run(on_host().arg(on_disk.path()));
    // If the target directory is on a tmpfs, it is a valid choice.
    if on_disk_run.code != Some(0) {
        assert!(on_disk_run.stderr.contains("tmpfs"), "{on_disk_run:?}");
    }
    assert_eq!(fs::read_dir(on_disk.path()).unwrap().count(), 0);
}

#[test]
fn files_that_are_no_models_are_refused() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let header = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("short", b"abc".to_vec(), "less than 8 bytes"),
        (
            "long-header",
            u64::MAX.to_le_bytes().to_vec(),
            "a header of",
        ),
        ("no-json", header("{"), "no model"),
        ("empty", header("{}"), "found none that are not empty"),
        (
            "cut",
            header(r#"{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}"#),
            "bytes, found",
        ),
        (
            "wrong-length",
            header(r#"{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,9]}}"#),
            "no model",
        ),
    ];
    for (name, bytes, part) in cases {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let run = run(site.command().args(["--simulated", "--model"]).arg(&path)).expect(1);
        assert!(run.stderr.contains(part), "{name}: {}", run.stderr);
        assert!(run.stderr.contains(name), "the path: {}", run.stderr);
    }
    let missing = folder.path().join("missing");
    let run = run(site
        .command()
        .args(["--simulated", "--model"])
        .arg(&missing))
    .expect(1);
    assert!(run.stderr.contains("cannot open"), "{}", run.stderr);
    assert!(site.files().is_empty());
}
