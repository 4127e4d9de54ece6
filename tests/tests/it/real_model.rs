//! Real weights: all-MiniLM-L6-v2 as it is on the Python package index.

use std::path::{Path, PathBuf};
use std::process::Command;

use tetris_agent::LoadOptions;
use tetris_tests::check::require_reclaimable;
use tetris_tests::model::{fingerprint, fingerprint_of_file, settle};
use tetris_tests::process::Worker;
use tetris_tests::scratch::Scratch;
use tetris_tests::task::{LoadTask, Loaded};
use tetris_tests::{skip, worker_exe};

const TENSORS: u64 = 104;

/// The path of the weights, which are fetched if they are not there.
fn weights() -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch-minilm.sh");
    let output = Command::new(script).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(errors.lines().last().unwrap_or("no message").to_owned());
    }
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    // It may have been fetched just now.
    settle(&path).map_err(|error| error.to_string())?;
    Ok(path)
}

fn start(store: &Path, model: &Path) -> Worker {
    let mut worker = Worker::start(worker_exe!(), &LoadTask::of(store, model).into());
    worker.wait_ready();
    worker.go();
    worker
}

#[test]
fn real_weights_are_shared_between_processes_and_equal_the_reference() {
    let path = match weights() {
        Ok(path) => path,
        Err(error) => skip!("all-MiniLM-L6-v2 cannot be fetched: {error}"),
    };
    let expected = fingerprint_of_file(&path).unwrap();
    let scratch = Scratch::new().unwrap();
    let mut first = start(scratch.root(), &path);
    let line = first.read_line();
    let line = line.strip_prefix(tetris_tests::process::RESULT).unwrap();
    let first_process: Loaded = serde_json::from_str(line).unwrap();
    // While the first holds it.
    let two: Loaded = start(scratch.root(), &path).finish().result();
    assert!(first.finish().status.success());
    for loaded in [&first_process, &two] {
        let Loaded {
            error,
            fingerprint,
            tensors,
            ..
        } = loaded;
        assert_eq!((error, fingerprint, *tensors), (&None, &expected, TENSORS));
    }
    assert_eq!(first_process.recognized, ["hashing"]);
    assert_eq!(
        (
            first_process.bytes_new,
            first_process.bytes_shared,
            first_process.bytes_private
        ),
        (first_process.bytes_read, 0, 0)
    );
    assert_eq!(two.recognized, ["stat"]);
    assert_eq!(
        (two.bytes_read, two.bytes_new, two.bytes_private),
        (0, 0, 0)
    );
    assert_eq!(two.bytes_shared, first_process.bytes_new);
    require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
}

#[test]
fn real_weights_are_shared_as_a_whole_file_and_as_tensors() {
    let path = match weights() {
        Ok(path) => path,
        Err(error) => skip!("all-MiniLM-L6-v2 cannot be fetched: {error}"),
    };
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let options = LoadOptions::default();
    let file = agent.share_file(&path, &options).unwrap();
    assert!(file.is_shared());
    assert!(std::fs::read(file.path()).unwrap() == std::fs::read(&path).unwrap());
    let again = agent.share_file(&path, &options).unwrap();
    assert_eq!((again.path(), again.report().bytes_read), (file.path(), 0));
    // The file in the store is a model as well.
    let model = agent.load(file.path()).unwrap();
    assert_eq!(
        fingerprint(&model).unwrap(),
        fingerprint_of_file(&path).unwrap()
    );
}
