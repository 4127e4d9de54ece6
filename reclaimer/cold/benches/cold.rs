//! The cold tier, beside `dd` with the same bytes and the same disk.
//!
//! `cargo bench -p tetris-cold`; `-- --disk DIR` names a directory of the disk (target), `-- --mib N` sets the size of the model (1,024),
//! `-- --rounds N` the number of rounds (5), `-- --json FILE` writes the results to a file too. Needs room for two copies of the model in
//! memory, and for two on the disk.
//!
//! Ways take turns. Reading: `dd` with `O_DIRECT` into a file of the same tmpfs, and a model that comes back. Writing: `dd` from the tmpfs, ended by
//! a sync, and a model on its way to the disk.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;
use tetris_cold::{ColdStore, ListedModel, ModelScan};
use tetris_folder::{FolderTable, TableFile};
use tetris_loader::PlannedFile;
use tetris_store_layout::{Access, CreateOptions, Store};
use tetris_test_support::models::bytes;

const MIB: usize = 1 << 20;
/// Bytes of an object.
const OBJECT: usize = 32 * MIB;
const WAYS: [&str; 4] = ["dd, reading", "restore", "dd, writing", "keep"];

fn main() {
    let (mut mib, mut rounds, mut json_path) = (1024, 5, None);
    let mut disk = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = |or| args.next().and_then(|text| text.parse().ok()).unwrap_or(or);
        match arg.as_str() {
            "--mib" => mib = number(mib).max(64),
            "--rounds" => rounds = number(rounds).max(1),
            "--disk" => disk = args.next().map_or(disk, PathBuf::from),
            "--json" => json_path = args.next(),
            _ => {}
        }
    }
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let disk = tempfile::tempdir_in(&disk).expect("a folder on the disk");
    let (warm, model) = model(&memory.path().join("warm"), mib);
    let len = warm
        .objects()
        .expect("objects")
        .objects
        .iter()
        .map(|entry| entry.object.len)
        .sum::<u64>();
    let plain = disk.path().join("plain");
    let copy = memory.path().join("copy");
    std::fs::write(&copy, bytes(7, mib * MIB)).expect("room in memory");
    let mut rates = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        let writing = dd(&copy, &plain, &["conv=fsync"]);
        let reading = dd(&plain, &memory.path().join("read"), &["iflag=direct"]);
        std::fs::remove_file(&plain).expect("the plain file");
        std::fs::remove_file(memory.path().join("read")).expect("the plain copy");
        let directory = disk.path().join(format!("cold-{round}"));
        let cold = ColdStore::open(&directory).expect("a cold store");
        let keep = timed(|| {
            cold.keep(&model, &warm, &|| true).expect("a kept model");
        });
        let empty = memory.path().join("empty");
        let empty_store = Store::create(&empty, &CreateOptions::default()).expect("a store");
        let restore = timed(|| {
            let restored = cold.restore(&model, &empty_store, &|_, _| true, &|_, _| ());
            assert_eq!(restored.expect("a restored model").bytes, len);
        });
        for folder in [&directory, &empty] {
            std::fs::remove_dir_all(folder).expect("a store");
        }
        for (rates, seconds) in rates.iter_mut().zip([reading, restore, writing, keep]) {
            rates.push((mib * MIB) as f64 / seconds / 1e9);
        }
    }
    let medians = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let mut rows = Vec::new();
    for (index, (way, rate)) in WAYS.iter().zip(medians).enumerate() {
        let ratio = rate / medians[index / 2 * 2];
        println!("{way:<12} {rate:>6.2} GB/s {ratio:>6.2} of dd");
        rows.push(json!({ "way": way, "gb_per_s": rate, "of_dd": ratio }));
    }
    if let Some(path) = json_path {
        let report = json!({ "bytes": mib * MIB, "rounds": rounds, "rows": rows });
        std::fs::write(&path, format!("{report:#}\n"))
            .unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

/// Seconds of a copy by `dd`.
fn dd(from: &Path, to: &Path, options: &[&str]) -> f64 {
    timed(|| {
        let copied = Command::new("dd")
            .arg(format!("if={}", from.display()))
            .arg(format!("of={}", to.display()))
            .arg("bs=4M")
            .args(options)
            .stderr(Stdio::null())
            .status();
        assert!(copied.expect("dd").success());
    })
}

/// A store with a pulled model of `mib` MiB.
fn model(root: &Path, mib: usize) -> (Store, ListedModel) {
    let store = Store::create(root, &CreateOptions::default()).expect("a store");
    let publish = |bytes: &[u8]| store.publish(bytes, Access::ReadOnly).expect("room").object;
    let files = (0..mib * MIB / OBJECT).map(|index| {
        let object = publish(&bytes(index as u64, OBJECT));
        let size = OBJECT as u64;
        let (manifest, _) = PlannedFile::whole(size).into_manifest(&[object]);
        TableFile {
            path: format!("{index:05}.gguf"),
            size,
            modified: 0,
            manifest: Some(store.publish_manifest(&manifest).expect("a manifest")),
            version: None,
            header: None,
        }
    });
    let table = FolderTable {
        source: "hf://org/model".to_owned(),
        revision: None,
        files: files.collect(),
    };
    let list = publish(&table.encode().expect("a list"));
    let key = FolderTable::key(&table.source).expect("a key");
    store.record_derived(&key, list).expect("a record");
    let mut models = ModelScan::default().models(&store).expect("models");
    (store, models.remove(0))
}
