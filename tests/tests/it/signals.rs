//! Signals that interrupt system calls, as timers and profilers send them, do not change what a load
//! does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tetris_tests::model::{equal_specs, fingerprint_of_file, write};
use tetris_tests::process::{RESULT, Worker};
use tetris_tests::scratch::Scratch;
use tetris_tests::task::{LoadTask, Loaded};
use tetris_tests::worker_exe;

const PERIOD: Duration = Duration::from_millis(1);

#[test]
fn signals_do_not_make_a_load_private() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("model");
    // A large tensor: allocating it takes long enough to be interrupted.
    write(&path, &equal_specs(1, 1, 256 << 20)).unwrap();
    let task = LoadTask {
        signals: true,
        threads: Some(1),
        ..LoadTask::of(scratch.root(), &path)
    };
    let mut worker = Worker::start(worker_exe!(), &task.into());
    worker.wait_ready();
    let done = AtomicBool::new(false);
    let pid = worker.pid();
    let loaded = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The worker is not waited for before this has ended, so the number stays its own.
            while !done.load(Ordering::Relaxed) {
                let _ = kill(pid, Signal::SIGUSR1);
                // The pace of a profiler; faster ones leave no time for anything else.
                std::thread::sleep(PERIOD);
            }
        });
        worker.go();
        let line = worker.read_line();
        done.store(true, Ordering::Relaxed);
        line
    });
    let loaded: Loaded = serde_json::from_str(loaded.strip_prefix(RESULT).unwrap()).unwrap();
    assert!(worker.finish().status.success());
    assert!(loaded.signals > 0, "{loaded:?}");
    assert_eq!(
        (&loaded.error, loaded.bytes_private),
        (&None, 0),
        "{loaded:?}"
    );
    assert_eq!(loaded.fingerprint, fingerprint_of_file(&path).unwrap());
}
