//! Ctrl-C in a load.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::site::{Run, Site};
use tetris_test_support::models::{bytes, settle, write_f32};

/// Number of tensors, of 4 MiB each: a load with one thread takes long enough to be interrupted.
const TENSORS: usize = 48;

#[test]
fn a_load_that_is_stopped_says_what_the_store_keeps_and_goes_on_from_there() {
    let site = Site::new();
    let path = site.dir().join("large.safetensors");
    let tensors: Vec<_> = (0..TENSORS)
        .map(|index| (format!("t{index}"), bytes(index as u64, 4 << 20)))
        .collect();
    write_f32(&path, &tensors);
    drop(tensors);
    settle(&path);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        site.run(&["gc"]).expect(0);
        let args = [
            "load".as_ref(),
            "--threads".as_ref(),
            "1".as_ref(),
            path.as_os_str(),
        ];
        let mut command = site.command(&args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let objects = site.fixture.store().objects_dir();
        while std::fs::read_dir(&objects).unwrap().next().is_none() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended early");
            std::thread::sleep(Duration::from_micros(200));
        }
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let run = Run::of(&child.wait_with_output().unwrap());
        assert_eq!(
            run.signal,
            Some(signal as i32),
            "as a shell expects it: {run:?}"
        );
        for part in [
            "stopped while loading",
            "large.safetensors",
            "stay in the store",
            "tetris gc",
        ] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        let kept = site.json(&["stat"])["objects"].as_u64().unwrap();
        assert!(kept > 0 && run.stderr.contains(" objects ("), "{run:?}");
        let again = &site.load(&path)["models"][0];
        assert!(
            again["bytes_shared"].as_u64().unwrap() >= 4 << 20,
            "{again}"
        );
        assert_eq!(again["bytes_private"], 0);
    }
}
