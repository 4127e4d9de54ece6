//! The reclaimer: frees objects of a node's stores by policy. Blocking and without threads: time,
//! requests and declarations are arguments.

pub mod commands;

mod arrival;
mod held;
mod observation;
mod open;
mod pages;
mod pass;
mod persisted_state;
mod progress;
mod reading_mark;
mod references;
mod remove;
mod room;
mod shares;
mod status;
mod suspect;
mod tenant;
mod tidy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tetris_reclaimer_core::{Clock, State};
use tetris_store_layout::Pages;

use crate::config::Config;
use crate::keep_warm::{Freshness, WarmSet};
use crate::record_memory::AllRecordMemory;
use crate::report::{ErrorClass, NodeStatus, PassReport};
use crate::room::{DaemonReferences, GrantedRoom, RoomResult};
use crate::store::{OpenStore, StoreConfig};
use tenant::Tenant;

pub use persisted_state::{PersistedState, PersistedStateError};
pub use remove::Leave;

/// All stores of a node and their state.
#[derive(Debug)]
pub struct Reclaimer {
    config: Config,
    /// True if it plans but frees nothing.
    dry_run: bool,
    tenants: Vec<Tenant>,
    /// Stores that cannot be used now, and why.
    missing: Vec<(StoreConfig, String)>,
    /// Stores that no file configures: those of namespaces, made when their first pod came.
    added: Vec<StoreConfig>,
    state: State,
    warm: WarmSet,
    /// Mounts on their way down to the low watermark, by device.
    draining: BTreeMap<(u64, u64), bool>,
    /// Measured page sizes of each mount, by device.
    pages: BTreeMap<(u64, u64), Pages>,
    started_ms: u64,
    /// The time line of ages; the system's clock if nothing reads it.
    clock: Clock,
    /// Time of the last pass, or of the start.
    now_ms: u64,
    /// Number of passes, with the one in progress.
    passes: u64,
    /// Time of the last pass that listed everything.
    full_ms: u64,
    /// Memory for the contents of records.
    record_memory: AllRecordMemory,
    /// Errors since the last report, by class and store.
    errors: Vec<(ErrorClass, Option<String>)>,
    /// References that another part of this daemon can give up.
    references: Option<Box<dyn DaemonReferences>>,
    /// Room that loads were granted and have not filled yet.
    granted: Option<Box<dyn GrantedRoom>>,
}

/// Result of a pass.
#[derive(Debug)]
pub struct PassResult {
    /// Counts of the pass.
    pub report: PassReport,
    /// State of the stores after it.
    pub status: NodeStatus,
    /// Answer to each need, in the order of the needs.
    pub rooms: Vec<RoomResult>,
}

impl Reclaimer {
    /// Opens the stores of a configuration. Those that cannot be opened are tried again at every
    /// pass.
    pub fn new(config: Config, dry_run: bool, now_ms: u64) -> Self {
        let warm = if config.file.kubernetes.enabled {
            WarmSet::before_first_sync(None, std::time::SystemTime::UNIX_EPOCH)
        } else {
            WarmSet::no_cluster()
        };
        let mut reclaimer = Self {
            missing: Vec::new(),
            added: Vec::new(),
            config,
            dry_run,
            tenants: Vec::new(),
            state: State::default(),
            warm,
            draining: BTreeMap::new(),
            pages: BTreeMap::new(),
            started_ms: now_ms,
            clock: Clock::default(),
            now_ms,
            passes: 0,
            full_ms: 0,
            record_memory: AllRecordMemory::of_container(),
            errors: Vec::new(),
            references: None,
            granted: None,
        };
        reclaimer.missing = reclaimer.wanted();
        reclaimer.open_missing();
        reclaimer.look_for_stores();
        reclaimer
    }

    /// Reads the system's and the monotonic clock, in milliseconds. Returns the time for a pass: where
    /// the system's clock was set, ages of objects stay as they were.
    pub fn read_clocks(&mut self, system_ms: u64, monotonic_ms: u64) -> u64 {
        let before_ms = self.clock.ahead_ms();
        let now_ms = self.clock.read(system_ms, monotonic_ms);
        let ahead_ms = self.clock.ahead_ms();
        if ahead_ms != before_ms {
            let step_ms = ahead_ms.saturating_sub(before_ms);
            tracing::warn!(
                step_ms,
                "the system's clock was set; ages of objects stay as they were"
            );
        }
        now_ms
    }

    /// Adds a store that stays over changes of the configuration. Returns true if it is new.
    pub fn add_store(&mut self, store: StoreConfig) -> bool {
        let taken = |other: &StoreConfig| other.path == store.path || other.name == store.name;
        if self.config.file.stores.iter().any(taken) {
            return false;
        }
        self.added.push(store.clone());
        self.config.file.stores.push(store.clone());
        self.missing.push((store, "not opened yet".to_owned()));
        self.open_missing();
        true
    }

    /// Applies another configuration. Stores that stay keep their state.
    pub fn reconfigure(&mut self, mut config: Config) {
        for store in &self.added {
            let taken = |other: &StoreConfig| other.path == store.path || other.name == store.name;
            if !config.file.stores.iter().any(taken) {
                config.file.stores.push(store.clone());
            }
        }
        self.config = config;
        // The mount may give others now.
        self.pages.clear();
        let wanted = self.wanted();
        self.tenants.retain_mut(|tenant| {
            let config = wanted.iter().find(|(store, _)| {
                (&store.name, &store.path) == (&tenant.config.name, &tenant.config.path)
            });
            if let Some((config, _)) = config {
                tenant.config = config.clone();
            }
            config.is_some()
        });
        self.missing = wanted;
        let open = |store: &StoreConfig| self.tenants.iter().any(|t| t.config.name == store.name);
        self.missing.retain(|(store, _)| !open(store));
        self.open_missing();
    }

    /// Takes over the declarations of pods.
    pub fn declare(&mut self, warm: WarmSet) {
        self.warm = warm;
    }

    /// Declarations of pods. At the start, those that an earlier daemon persisted.
    pub fn declared(&self) -> &WarmSet {
        &self.warm
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The stores that are open.
    pub fn stores(&self) -> Vec<OpenStore> {
        let tenants = self.tenants.iter();
        tenants
            .map(|tenant| OpenStore {
                name: tenant.config.name.clone(),
                root: tenant.config.path.clone(),
                objects: tenant.store.objects_dir(),
                id: tenant.store.id(),
            })
            .collect()
    }

    /// Returns true if a store's mount is over the high watermark.
    pub fn over_watermark(&self) -> bool {
        let high = self.config.policy.config().high_watermark_percent;
        self.tenants.iter().any(|tenant| {
            tenant.store.usage().is_ok_and(|usage| {
                let used = usage.capacity.saturating_sub(usage.free);
                u128::from(used) * 100 > u128::from(usage.capacity) * u128::from(high)
            })
        })
    }

    fn wanted(&self) -> Vec<(StoreConfig, String)> {
        let stores = self.config.file.stores.iter();
        stores
            .map(|store| (store.clone(), "not opened yet".to_owned()))
            .collect()
    }

    fn state_path(&self, store: &StoreConfig) -> PathBuf {
        let dir: Option<&Path> = self.config.file.state_dir.as_deref();
        persisted_state::path(dir, &store.name, &store.path)
    }

    fn cluster(&self) -> bool {
        self.warm.freshness != Freshness::NoCluster
    }
}
