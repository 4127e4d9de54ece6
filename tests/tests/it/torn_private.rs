//! Tensors outside the store are read into private memory. A file changed at that moment
//! must not give a mixture of two versions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tetris_agent::{Agent, LoadError, Model};
use tetris_tests::model::{Spec, equal_specs, fingerprint, fingerprint_of_bytes, serialize, write};
use tetris_tests::mount::Mount;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip;
use tetris_tests::skip::is_root;

/// Enough of them that the private copy takes much longer than a change.
const TENSORS: u64 = 24;
const TENSOR_LEN: usize = 4 << 20;
const ROUNDS: u64 = 6;

/// Makes the count of this process's memory that of one load: tests of one process take turns.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn specs() -> Vec<Spec> {
    equal_specs(1, TENSORS, TENSOR_LEN)
}

/// Bytes of this process's anonymous memory.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// The states that the file passes through: as it was, with another end, with another beginning too.
/// Each change is of one page, so that there is no state in between.
struct Versions {
    bytes: Vec<Vec<u8>>,
    fingerprints: Vec<String>,
    places: [u64; 2],
}

const CHANGE: [u8; 4] = [1, 2, 3, 4];

impl Versions {
    fn new() -> Self {
        let first = serialize(&specs()).unwrap();
        let end = first.len() as u64;
        let places = [end - 8, end - TENSORS * TENSOR_LEN as u64];
        let mut bytes = vec![first];
        for place in places {
            let mut next = bytes.last().unwrap().clone();
            next[place as usize..][..4].copy_from_slice(&CHANGE);
            bytes.push(next);
        }
        let fingerprints = bytes.iter().map(|b| fingerprint_of_bytes(b).unwrap());
        Self {
            fingerprints: fingerprints.collect(),
            bytes,
            places,
        }
    }

    /// Loads the file, and changes it once a tenth of a private copy of it is there.
    fn load_while_changing(&self, agent: &Agent, path: &Path) -> Result<Model, LoadError> {
        let enough = anonymous_bytes() + TENSORS * TENSOR_LEN as u64 / 10;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(path).unwrap();
                while anonymous_bytes() < enough && !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                for place in self.places {
                    file.write_all_at(&CHANGE, place).unwrap();
                }
            });
            let loaded = agent.load(path);
            done.store(true, Ordering::Relaxed);
            loaded
        })
    }

    fn require_one_of_them(&self, loaded: Result<Model, LoadError>) {
        match loaded {
            Err(LoadError::Changed { .. }) => {}
            Err(error) => panic!("unclear: {error}"),
            Ok(model) => {
                let digest = fingerprint(&model).unwrap();
                assert!(self.fingerprints.contains(&digest), "a mixture of versions");
            }
        }
    }
}

#[test]
fn a_private_copy_of_a_known_model_is_never_torn() {
    if !is_root() {
        skip!("needs root to mount the store read-only");
    }
    let _alone = ALONE.lock();
    let versions = Versions::new();
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("model");
    let read_only = Mount::read_only(scratch.root()).unwrap();
    let agent = Agent::open_store(read_only.path()).unwrap();
    for _ in 0..ROUNDS {
        write(&path, &specs()).unwrap();
        let known = scratch.agent().unwrap().load(&path).unwrap();
        let objects: Vec<_> = known.objects().collect();
        drop(known);
        for object in &objects {
            scratch.store().reclaim(object).unwrap();
        }
        versions.require_one_of_them(versions.load_while_changing(&agent, &path));
    }
}

#[test]
fn a_private_copy_without_a_store_is_never_torn() {
    let _alone = ALONE.lock();
    let versions = Versions::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let agent = Agent::without_store();
    for _ in 0..ROUNDS {
        std::fs::write(&path, &versions.bytes[0]).unwrap();
        versions.require_one_of_them(versions.load_while_changing(&agent, &path));
    }
}
