//! Conditions on any bytes in the file in which the node daemon keeps what it learned. Shared by the
//! fuzz target and the tests of the daemon.

use std::fs;

use tempfile::TempDir;
use tetris_node::engine::PersistedState;
use tetris_reclaimer_core::{
    Event, Expiry, ModelSnapshot, MountSnapshot, ObjectSnapshot, Order, Policy, PolicyConfig,
    RecordId, Snapshot, State, StorePolicy, StoreSnapshot, plan,
};
use tetris_store_layout::{ManifestId, ObjectId};

/// Name of the store of the plan.
pub const STORE: &str = "s";
/// Identity of that store.
pub const STORE_ID: &str = "00112233445566778899aabbccddeeff";

/// The model of the plan.
pub fn model() -> RecordId {
    RecordId::Manifest(ManifestId::of(b"model"))
}

/// A folder with the file.
pub struct Site(TempDir);

impl Default for Site {
    fn default() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }
}

impl Site {
    /// Reads `bytes` as persisted state, and plans and goes on learning with it. Returns true if it
    /// is one.
    ///
    /// # Panics
    ///
    /// If an accepted state is another one when it is written and read again.
    pub fn check(&self, bytes: &[u8]) -> bool {
        let path = self.0.path().join("state.json");
        fs::write(&path, bytes).unwrap();
        let state = match PersistedState::read(&path) {
            Ok(state) => state.expect("the file is there"),
            Err(error) => {
                assert!(!error.to_string().contains(char::is_control), "{error:?}");
                return false;
            }
        };
        state.write(&path).unwrap();
        assert_eq!(PersistedState::read(&path).unwrap().as_ref(), Some(&state));
        let _times = state.last_held(STORE_ID);
        let mut learned = state.policy_state().clone();
        plans(&learned);
        for (at_ms, loaded) in [(u64::MAX, true), (0, false), (u64::MAX, true)] {
            let model = model();
            let event = if loaded {
                Event::Loaded { model, at_ms }
            } else {
                Event::Released { model, at_ms }
            };
            learned.observe(STORE, event);
        }
        plans(&learned);
        true
    }
}

/// Plans by each policy for a full mount with two objects, one of them of a model.
fn plans(state: &State) {
    let object = |text: &[u8]| ObjectSnapshot {
        id: ObjectId::of(text),
        len_bytes: 4096,
        allocated_bytes: 4096,
        published_ms: 1,
        last_use_ms: 1,
        held: false,
    };
    let model = ModelSnapshot {
        id: model(),
        objects: vec![0],
        total_bytes: 4096,
        last_use_ms: 1,
        reload_ms: 1000,
        warm: false,
    };
    let snapshot = Snapshot {
        mounts: vec![MountSnapshot {
            capacity_bytes: 8192,
            inodes: 100,
            ..MountSnapshot::default()
        }],
        stores: vec![StoreSnapshot {
            name: STORE.to_owned(),
            objects: vec![object(b"one"), object(b"other")],
            models: vec![model],
            ..StoreSnapshot::default()
        }],
        ..Snapshot::default()
    };
    for expiry in Expiry::ALL {
        for order in Order::ALL {
            let config = PolicyConfig {
                store: StorePolicy {
                    expiry,
                    order,
                    ..StorePolicy::default()
                },
                ..PolicyConfig::default()
            };
            let policy = Policy::try_new(config).unwrap();
            for now_ms in [2, u64::MAX] {
                let plan = plan(&snapshot, &policy, state, now_ms, usize::MAX).unwrap();
                assert!(plan.actions.len() <= 2);
            }
        }
    }
}
