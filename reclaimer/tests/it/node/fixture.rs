//! Stores on tmpfs with models in them.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;
use tetris_agent::{Agent, Model};
use tetris_node::config::{Config, ConfigFile};
use tetris_node::engine::commands::now_ms;
use tetris_node::engine::{PassResult, Reclaimer};
use tetris_node::report::{ObjectState, StoreStatus, Trigger};
use tetris_node::store::StoreConfig;
use tetris_store_layout::{CreateOptions, Store};

use tetris_test_support::settled::settle;

pub const SECOND_MS: u64 = 1000;
pub const HOUR_MS: u64 = 3600 * SECOND_MS;

/// A directory on tmpfs and what the tests make in it.
pub struct Fixture {
    dir: TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir_in("/dev/shm").unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new store.
    pub fn store(&self, name: &str) -> Store {
        Store::create(self.path(name), &CreateOptions::default()).unwrap()
    }

    /// A model file of one tensor of 100,000 bytes, identified by `seed`.
    pub fn model_file(&self, name: &str, seed: u8) -> PathBuf {
        let path = self.path(&format!("{name}.safetensors"));
        let header = br#"{"w":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header);
        bytes.extend((0..100_000_u32).map(|n| (n % 251) as u8 ^ seed));
        std::fs::write(&path, bytes).unwrap();
        settle(&path);
        path
    }

    /// Loads a model through a store, as a process would.
    pub fn load(&self, store: &str, name: &str, seed: u8) -> Model {
        let path = self.model_file(name, seed);
        let agent = Agent::open_store(self.path(store)).unwrap();
        agent.load(path).unwrap()
    }

    /// A configuration with these stores; `change` sets the rest.
    pub fn config(&self, stores: &[&str], change: impl FnOnce(&mut ConfigFile)) -> Config {
        let stores = stores.iter().map(|name| StoreConfig {
            name: (*name).to_owned(),
            path: self.path(name),
            namespaces: Vec::new(),
            own: false,
        });
        let mut file = ConfigFile {
            stores: stores.collect(),
            ..ConfigFile::default()
        };
        change(&mut file);
        file.check().unwrap()
    }
}

/// Unused objects go after a minute.
pub fn expire_after_a_minute(file: &mut ConfigFile) {
    file.policy.store.expiry = tetris_reclaimer_core::Expiry::Fixed;
    file.policy.store.expire_after_secs = 60;
}

/// A pass at the interval.
pub fn pass(reclaimer: &mut Reclaimer, at_ms: u64) -> PassResult {
    reclaimer.pass(Trigger::Interval, &[], at_ms)
}

/// Objects in a state.
pub fn count(status: &StoreStatus, state: ObjectState) -> u64 {
    status.states.get(&state).map_or(0, |amount| amount.objects)
}

/// Sets when a record was last used.
pub fn set_used(path: &Path, at_ms: u64) {
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_millis(at_ms))
        .unwrap();
}

pub fn in_two_minutes() -> u64 {
    now_ms() + 120 * SECOND_MS
}
