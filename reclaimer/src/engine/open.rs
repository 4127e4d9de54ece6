//! Opening of stores, persistence of their state, and detection of a replaced store.

use std::time::{Duration, UNIX_EPOCH};

use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::Store;

use super::Reclaimer;
use super::persisted_state::{PersistedState, PersistedStateError};
use super::tenant::Tenant;
use crate::keep_warm::WarmSet;
use crate::report::ErrorClass;
use crate::store::StoreConfig;

/// Time without an event after which a model is forgotten, so that learned state stays bounded.
const FORGET_MS: u64 = 90 * 24 * 3600 * 1000;

impl Reclaimer {
    /// Opens the stores that could not be opened before, and closes those that are no longer there.
    pub(super) fn open_missing(&mut self) {
        let mut gone = Vec::new();
        self.tenants.retain(|tenant| {
            let reason = match tenant.is_still_there() {
                Ok(true) => return true,
                Ok(false) => "another store has been put in its place".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(store = tenant.config.name, %reason, "store is gone");
            gone.push((tenant.config.clone(), reason));
            false
        });
        self.missing.extend(gone);
        for (config, told) in std::mem::take(&mut self.missing) {
            let mark = match self.begin_reading(&config) {
                Ok(mark) => mark,
                Err(error) => {
                    self.cannot_use(config, error.to_string(), &told);
                    continue;
                }
            };
            let kept = self.read_persisted(&config);
            let now_ms = self.now_ms;
            let last_held = |store: &Store| {
                let kept = kept.as_ref();
                let mut times = kept
                    .map(|kept| kept.last_held(&store.id().to_string()))
                    .unwrap_or_default();
                // An earlier daemon's clock may have been ahead.
                for at_ms in times.values_mut() {
                    *at_ms = (*at_ms).min(now_ms);
                }
                times
            };
            let opened = Tenant::open(config.clone(), self.record_memory.of_store(), last_held);
            mark.pause();
            match opened {
                Ok(tenant) if !self.dry_run && !tenant.store.is_writable() => {
                    let error = "this process may not write to it, so it can free nothing; run as its owner or root".to_owned();
                    self.cannot_use(config, error, &told);
                }
                Ok(tenant) => {
                    let tenant = tenant.with_reading_mark(mark);
                    if let Some(kept) = kept {
                        self.take_over(&config.name, kept);
                    }
                    tracing::info!(store = config.name, path = %config.path.display(), "store opened");
                    self.tenants.push(tenant);
                }
                Err(error) => {
                    let remedy = PrivateCause::remedy_of_open(&error, Words::Daemon);
                    let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
                    self.cannot_use(config, format!("{error}{remedy}"), &told);
                }
            }
        }
        // As configured, whatever the order in which they could be opened.
        let order = |name: &str| {
            let mut stores = self.config.file.stores.iter();
            stores.position(|store| store.name == name)
        };
        self.tenants
            .sort_by_key(|tenant| order(&tenant.config.name));
    }

    fn cannot_use(&mut self, config: StoreConfig, error: String, told: &str) {
        if error != told {
            tracing::warn!(store = config.name, %error, "store cannot be used");
        }
        self.errors
            .push((ErrorClass::Store, Some(config.name.clone())));
        self.missing.push((config, error));
    }

    fn read_persisted(&mut self, config: &StoreConfig) -> Option<PersistedState> {
        PersistedState::read(&self.state_path(config)).unwrap_or_else(|error| {
            self.complain(&config.name, &error);
            None
        })
    }

    fn take_over(&mut self, name: &str, kept: PersistedState) {
        if self.state.store(name).is_none() {
            self.state.take_over(name, kept.state);
        }
        if self.cluster() && !kept.pods.is_empty() {
            let mut pods = self.warm.pods.clone();
            pods.extend(kept.pods);
            if self.warm.freshness == crate::keep_warm::Freshness::Unknown {
                let since = UNIX_EPOCH + Duration::from_millis(self.started_ms);
                self.warm = WarmSet::before_first_sync(Some(pods), since);
            } else if matches!(
                self.warm.freshness,
                crate::keep_warm::Freshness::Stale { .. }
            ) {
                self.warm.pods = pods;
            }
        }
    }

    /// Persists the state, so that a later daemon starts with it.
    pub fn keep(&mut self, now_ms: u64) {
        if self.dry_run {
            return;
        }
        self.state.forget_unseen(now_ms.saturating_sub(FORGET_MS));
        for index in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(index) else {
                continue;
            };
            let config = tenant.config.clone();
            let pods = self.warm.pods.iter().filter(|(pod, _)| {
                config.namespaces.is_empty() || config.namespaces.contains(&pod.namespace)
            });
            let kept = PersistedState::new(
                tenant.store.id().to_string(),
                self.state.part(&config.name),
                &tenant.last_held(),
                pods.map(|(pod, what)| (pod.clone(), what.clone()))
                    .collect(),
            );
            if let Err(error) = kept.write(&self.state_path(&config)) {
                self.complain(&config.name, &error);
            }
        }
    }

    fn complain(&mut self, store: &str, error: &PersistedStateError) {
        tracing::warn!(store, %error, "learned state");
        self.errors
            .push((ErrorClass::State, Some(store.to_owned())));
    }
}
