//! The stores that pods can get, and making those of namespaces.

use std::fmt;

use tetris_store_layout::{CreateOptions, Store, StoreError};

use super::choose::{Chosen, choose, own};
use super::config::{NAMESPACE, PerNamespace};
use super::error::VolumeError;
use crate::config::StoreConfig;
use crate::mount::is_tmpfs_mount;

/// What is called with a store of a namespace.
type OnStore = Box<dyn Fn(&StoreConfig) + Send + Sync>;

/// The stores that pods can get.
pub struct Stores {
    fixed: Vec<StoreConfig>,
    on_store: OnStore,
}

impl fmt::Debug for Stores {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Stores");
        debug.field("fixed", &self.fixed).finish_non_exhaustive()
    }
}

impl Stores {
    /// The configured stores, whose `namespaces` say who gets them. `on_store` is called with every store that a namespace has of
    /// its own: with those that are there when the service starts, and with each when it is made. It is called on a thread that
    /// may block, before the pod gets the store.
    pub fn new(
        fixed: Vec<StoreConfig>,
        on_store: impl Fn(&StoreConfig) + Send + Sync + 'static,
    ) -> Self {
        let on_store = Box::new(on_store);
        Self { fixed, on_store }
    }

    /// Tells of the stores of namespaces that are there, after a restart.
    pub(super) fn tell_existing(&self, rule: &PerNamespace) {
        for store in self.existing(rule) {
            (self.on_store)(&store);
        }
    }

    /// Whether every configured store can be used.
    pub(super) fn are_there(&self) -> bool {
        self.fixed
            .iter()
            .all(|store| Store::open(&store.path).is_ok())
    }

    /// The store for a pod, made if need be. Not to be called twice at once.
    pub(super) fn get(
        &self,
        rule: Option<&PerNamespace>,
        namespace: &str,
        wanted: Option<&str>,
    ) -> Result<StoreConfig, VolumeError> {
        let chosen = choose(&self.fixed, rule, namespace, wanted)?;
        let config = chosen.config();
        match (Store::open(&config.path), &chosen, rule) {
            (Ok(_), ..) => Ok(config.clone()),
            (Err(_), Chosen::Own(_), Some(rule)) => {
                self.make(rule, config, namespace)?;
                Ok(config.clone())
            }
            (Err(source), ..) => Err(unusable(config, source)),
        }
    }

    fn make(
        &self,
        rule: &PerNamespace,
        config: &StoreConfig,
        namespace: &str,
    ) -> Result<(), VolumeError> {
        let parent = rule.parent();
        // Without the mount, the store would lie on what is below it, and vanish from sight when it is mounted.
        if !is_tmpfs_mount(parent).map_err(VolumeError::io("look at", parent))? {
            let path = parent.to_owned();
            return Err(VolumeError::NoMount { path });
        }
        if self.existing(rule).len() >= rule.limit {
            return Err(VolumeError::Limit {
                limit: rule.limit,
                namespace: namespace.to_owned(),
            });
        }
        Store::create(&config.path, &CreateOptions::default())
            .map_err(|source| unusable(config, source))?;
        tracing::info!(store = config.name, path = %config.path.display(), namespace, "store made");
        (self.on_store)(config);
        Ok(())
    }

    /// The stores of namespaces that are there.
    fn existing(&self, rule: &PerNamespace) -> Vec<StoreConfig> {
        let pattern = rule.path.file_name().and_then(|name| name.to_str());
        let Some((before, after)) = pattern.and_then(|pattern| pattern.split_once(NAMESPACE))
        else {
            return Vec::new();
        };
        let Ok(entries) = std::fs::read_dir(rule.parent()) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let namespace = name.to_str()?.strip_prefix(before)?.strip_suffix(after)?;
                let store = own(rule, namespace)?;
                let fixed = self.fixed.iter().any(|fixed| fixed.path == store.path);
                (!fixed && Store::open(&store.path).is_ok()).then_some(store)
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

fn unusable(config: &StoreConfig, source: StoreError) -> VolumeError {
    VolumeError::Store {
        name: config.name.clone(),
        source: Box::new(source),
    }
}
