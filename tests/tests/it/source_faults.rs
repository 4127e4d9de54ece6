//! A model file changed between open and load, or while it is loaded, ends in a correct load
//! of one of its versions or in a clear error, never in a mixture of two.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tetris_agent::{Agent, LoadError, LoadOptions, Model, ProgressFn, Recognized};
use tetris_tests::model::{Spec, equal_specs, fingerprint, fingerprint_of_file, serialize, write};
use tetris_tests::scratch::Scratch;

const TENSORS: u64 = 8;
const TENSOR_LEN: usize = 5 << 20;

fn specs(seed: u64) -> Vec<Spec> {
    equal_specs(seed, TENSORS, TENSOR_LEN)
}

struct Setting {
    scratch: Scratch,
    path: PathBuf,
}

fn setting() -> Setting {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("model");
    write(&path, &specs(1)).unwrap();
    Setting { scratch, path }
}

/// Options whose load calls `change` once, when its first segment has been read.
fn changing(change: impl FnOnce() + Send + 'static) -> LoadOptions {
    let change = Mutex::new(Some(change));
    let progress = ProgressFn::new(move |_| {
        let change = change.lock().unwrap().take();
        if let Some(change) = change {
            change();
        }
    });
    LoadOptions::default().with_progress(progress)
}

/// A load that is right: what it gave is the file as it is now.
fn assert_current(model: &Model, path: &Path) {
    assert_eq!(
        fingerprint(model).unwrap(),
        fingerprint_of_file(path).unwrap()
    );
}

fn assert_next_load_is_right(agent: &Agent, path: &Path) {
    let model = agent.load(path).unwrap();
    assert_current(&model, path);
}

#[test]
fn a_file_truncated_during_the_load_is_an_error() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let victim = path.clone();
    let options = changing(move || {
        let file = File::options().write(true).open(&victim).unwrap();
        file.set_len(TENSOR_LEN as u64).unwrap();
    });
    let error = agent.load_with(&path, &options).unwrap_err();
    assert!(matches!(error, LoadError::Header(_)), "{error}");
    assert!(error.to_string().contains("model.safetensors"), "{error}");
}

#[test]
fn a_file_grown_during_the_load_is_an_error() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let victim = path.clone();
    let options = changing(move || {
        let file = File::options().write(true).open(&victim).unwrap();
        file.set_len(std::fs::metadata(&victim).unwrap().len() + 4_096)
            .unwrap();
    });
    let error = agent.load_with(&path, &options).unwrap_err();
    assert!(matches!(error, LoadError::Header(_)), "{error}");
}

#[test]
fn a_file_rewritten_in_place_during_the_load_is_loaded_in_its_new_version() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let victim = path.clone();
    let before = std::fs::metadata(&path).unwrap();
    let options = changing(move || {
        let file = File::options().write(true).open(&victim).unwrap();
        file.write_all_at(&serialize(&specs(2)).unwrap(), 0)
            .unwrap();
        // A program that restores the time stamps cannot restore the ctime.
        file.set_modified(before.modified().unwrap()).unwrap();
    });
    let model = agent.load_with(&path, &options).unwrap();
    assert_current(&model, &path);
    assert_next_load_is_right(&agent, &path);
}

#[test]
fn a_file_replaced_during_the_load_is_loaded_in_either_version() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let old = fingerprint_of_file(&path).unwrap();
    let victim = path.clone();
    let options = changing(move || write(&victim, &specs(2)).unwrap());
    let model = agent.load_with(&path, &options).unwrap();
    let loaded = fingerprint(&model).unwrap();
    let new = fingerprint_of_file(&path).unwrap();
    assert!(loaded == old || loaded == new);
    assert_next_load_is_right(&agent, &path);
}

#[test]
fn a_file_deleted_during_the_load_is_loaded_or_an_error() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let old = fingerprint_of_file(&path).unwrap();
    let victim = path.clone();
    let options = changing(move || std::fs::remove_file(&victim).unwrap());
    match agent.load_with(&path, &options) {
        Ok(model) => assert_eq!(fingerprint(&model).unwrap(), old),
        Err(LoadError::Io { source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        }
        Err(error) => panic!("unclear: {error}"),
    }
}

#[test]
fn a_file_that_never_stops_changing_is_an_error() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let victim = path.clone();
    let progress = ProgressFn::new(move |progress| {
        let file = File::options().write(true).open(&victim).unwrap();
        let last = std::fs::metadata(&victim).unwrap().len() - 8;
        file.write_all_at(&progress.done.to_le_bytes(), last)
            .unwrap();
    });
    let options = LoadOptions::default().with_progress(progress);
    let error = agent.load_with(&path, &options).unwrap_err();
    assert!(matches!(error, LoadError::Changed { .. }), "{error}");
    assert_next_load_is_right(&agent, &path);
}

#[test]
fn a_file_rewritten_with_its_times_restored_is_not_recognized() {
    let Setting { scratch, path } = setting();
    let agent = scratch.agent().unwrap();
    let before = std::fs::metadata(&path).unwrap();
    drop(agent.load(&path).unwrap());
    let again = agent.load(&path).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByStat]);

    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&serialize(&specs(2)).unwrap(), 0)
        .unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let after = std::fs::metadata(&path).unwrap();
    let kept = |m: &std::fs::Metadata| (m.ino(), m.len(), m.mtime(), m.mtime_nsec());
    assert_eq!(kept(&before), kept(&after));

    let model = agent.load(&path).unwrap();
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
    assert_current(&model, &path);
}

#[test]
fn a_model_in_use_survives_the_truncation_of_its_file() {
    let Setting { scratch, path } = setting();
    let expected = fingerprint_of_file(&path).unwrap();
    let agents = [scratch.agent().unwrap(), Agent::without_store()];
    let models = agents.map(|agent| agent.load(&path).unwrap());
    File::create(&path).unwrap();
    for model in &models {
        assert_eq!(fingerprint(model).unwrap(), expected);
    }
}
