//! The parts that need root: a memory limit, and samepage merging with restored settings.

use std::fs;
use std::path::{Path, PathBuf};

use tetris_density::Error;
use tetris_density::methods::Loader;
use tetris_density::synthetic::{self, table4};
use tetris_density::system::cgroup::{self, Cgroup};
use tetris_density::system::ksm::{self, Merging, Turn};

use crate::common;

#[test]
fn a_worker_over_its_limit_is_killed_and_the_cgroup_removed() {
    if let Some(reason) = cgroup::unavailable() {
        common::skipped(&reason);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large.safetensors");
    synthetic::write(&table4::sized("large", 96 << 20), 1, &file).unwrap();
    let name = format!("tetris-density-test-{}", std::process::id());
    let group = Cgroup::create(&name, 32 << 20).unwrap();
    let procs = group.procs();
    let mut worker = common::launcher().start(Loader::Heap).unwrap();
    worker.join(&procs).unwrap();
    let error = worker.load(Loader::Heap, &[file], None).unwrap_err();
    assert!(matches!(error, Error::Died { .. }), "{error}");
    assert!(group.kills() > 0);
    drop(worker);
    drop(group);
    assert!(!procs.exists());
}

#[test]
fn merging_restores_the_settings_it_found() {
    if let Some(reason) = ksm::unavailable() {
        common::skipped(&reason);
        return;
    }
    let settings = [
        "run",
        "pages_to_scan",
        "sleep_millisecs",
        "smart_scan",
        "advisor_mode",
    ];
    let read = || -> Vec<(PathBuf, String)> {
        let paths = settings.map(|name| Path::new("/sys/kernel/mm/ksm").join(name));
        paths
            .into_iter()
            .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
            .collect()
    };
    let turn = Turn::take().unwrap();
    let before = read();
    let merging = Merging::start(&turn).unwrap();
    assert_ne!(read(), before);
    drop(merging);
    assert_eq!(read(), before);
}
