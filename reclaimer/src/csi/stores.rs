//! Stores for pods; creation and removal of the stores of namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tetris_store_layout::{CreateOptions, Store, StoreError};

use super::choose::{Chosen, OwnStore, choose};
use super::config::PerNamespace;
use super::error::VolumeError;
use crate::mount::{is_mounted_elsewhere, is_tmpfs_mount};
use crate::store::StoreConfig;
use crate::store::remove_leftovers;

/// Result of a store's removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// Its objects are mapped.
    InUse,
    /// It could not be removed now, for this reason.
    Failed(String),
}

/// Keeper of the stores of namespaces. Called on threads that may block.
pub trait Keeper: Send + Sync {
    /// Looks after a store from now on: one that is there when the service starts, or one that was
    /// just made. The pod that it was made for gets it when this returns.
    fn look_after(&self, store: &StoreConfig);

    /// Removes a store with its contents, unless some of it is mapped.
    fn remove(&self, store: &StoreConfig) -> Removal;
}

/// The stores that pods can get.
pub struct Stores {
    fixed: Vec<StoreConfig>,
    keeper: Box<dyn Keeper>,
    /// Identifiers of namespaces that are gone for certain, and whose stores are still there.
    gone: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Stores");
        debug.field("fixed", &self.fixed).finish_non_exhaustive()
    }
}

impl Stores {
    /// The configured stores, whose `namespaces` select their pods, and those of namespaces in the
    /// care of `keeper`.
    pub fn new(fixed: Vec<StoreConfig>, keeper: impl Keeper + 'static) -> Self {
        Self {
            fixed,
            keeper: Box::new(keeper),
            gone: Mutex::default(),
        }
    }

    /// Hands the existing stores of namespaces to the keeper, after a restart. Stores that no pod
    /// gets any more are among them: mappings of their objects stay, and their objects count.
    pub(super) fn tell_existing(&self, rule: &PerNamespace) {
        if let Err(error) = remove_leftovers(rule.parent()) {
            tracing::warn!(path = %rule.parent().display(), %error, "a store whose removal has begun was left behind");
        }
        for store in self.existing(rule) {
            if is_store(&store.config.path) {
                self.keeper.look_after(&store.config);
            }
        }
    }

    /// Returns true if every configured store can be used.
    pub(super) fn are_there(&self) -> bool {
        self.fixed.iter().all(|store| is_store(&store.path))
    }

    /// Directories of the configured stores.
    pub(super) fn fixed_paths(&self) -> impl Iterator<Item = &Path> {
        self.fixed.iter().map(|store| store.path.as_path())
    }

    /// The store for a pod of `namespace` that asks for `wanted`.
    pub(super) fn choose(
        &self,
        rule: Option<&PerNamespace>,
        namespace: &str,
        wanted: Option<&str>,
    ) -> Result<Chosen, VolumeError> {
        choose(&self.fixed, rule, namespace, wanted)
    }

    /// Checks that a configured store can be used.
    pub(super) fn fixed(config: StoreConfig) -> Result<StoreConfig, VolumeError> {
        match open_unless_leased(&config.path) {
            Ok(()) => Ok(config),
            Err(source) => Err(unusable(&config, source)),
        }
    }

    /// The store of the namespace with this identifier, made if need be. Not to be called twice at
    /// once.
    pub(super) fn own(
        &self,
        rule: &PerNamespace,
        namespace: &str,
        uid: &str,
    ) -> Result<StoreConfig, VolumeError> {
        let own = OwnStore::new(&self.fixed, rule, namespace, uid)?;
        if !is_store(&own.config.path) {
            self.make(rule, &own, uid)?;
        }
        Ok(own.config)
    }

    fn make(&self, rule: &PerNamespace, own: &OwnStore, uid: &str) -> Result<(), VolumeError> {
        let (parent, config) = (rule.parent(), &own.config);
        // Without the mount, the store would lie on what is below it, and vanish from sight when it
        // is mounted.
        if !is_tmpfs_mount(parent).map_err(VolumeError::io("look at", parent))? {
            let path = parent.to_owned();
            return Err(VolumeError::NoMount { path });
        }
        if self.living(rule) >= rule.limit {
            return Err(VolumeError::Limit {
                limit: rule.limit,
                namespace: own.namespace.clone(),
            });
        }
        Store::create(&config.path, &CreateOptions::default())
            .map_err(|source| unusable(config, source))?;
        tracing::info!(store = config.name, path = %config.path.display(), namespace = own.namespace, namespace_uid = uid, "store made");
        self.keeper.look_after(config);
        Ok(())
    }

    /// Number of existing stores whose namespaces live, as far as is known.
    fn living(&self, rule: &PerNamespace) -> usize {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = self.existing(rule).into_iter();
        let living =
            stores.filter(|store| store.uid.as_ref().is_some_and(|uid| !gone.contains(uid)));
        living.count()
    }

    /// The stores of namespaces that are there.
    pub(super) fn existing(&self, rule: &PerNamespace) -> Vec<OwnStore> {
        let Ok(entries) = std::fs::read_dir(rule.parent()) else {
            return Vec::new();
        };
        let configured = |path: &Path| self.fixed.iter().any(|fixed| fixed.path.starts_with(path));
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry
                    .ok()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))?;
                let store = OwnStore::of_directory(rule, entry.file_name().to_str()?)?;
                // A directory of somebody else can be called like a namespace. One with an
                // identifier is ours, damaged or not.
                let ours = store.uid.is_some() || is_store(&store.config.path);
                (ours && !configured(&store.config.path)).then_some(store)
            })
            .collect();
        found.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        found
    }

    /// Removes a store whose namespace is gone for certain, or that no pod gets any more. While a
    /// volume of it is mounted, or an object mapped, it stays for another attempt.
    pub(super) fn remove(&self, store: &OwnStore) -> Removal {
        let config = &store.config;
        if let Some(uid) = &store.uid {
            self.gone
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(uid.clone());
        }
        let removal = match is_mounted_elsewhere(&config.path) {
            Ok(true) => Removal::InUse,
            Ok(false) => self.keeper.remove(config),
            Err(error) => Removal::Failed(format!("cannot find out where it is mounted: {error}")),
        };
        match &removal {
            Removal::Removed => {
                let namespace_uid = store.uid.as_deref().unwrap_or("none");
                tracing::info!(store = config.name, path = %config.path.display(), namespace = store.namespace, namespace_uid, "store removed: its namespace is gone");
                if let Some(uid) = &store.uid {
                    self.gone
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(uid);
                }
            }
            Removal::InUse => {
                tracing::debug!(
                    store = config.name,
                    "its namespace is gone, and it is still in use"
                );
            }
            Removal::Failed(problem) => {
                tracing::warn!(
                    store = config.name,
                    problem,
                    "the store of a namespace that is gone cannot be removed; it is tried again"
                );
            }
        }
        removal
    }
}

/// Opens a store, to see that it can be used. A header on which a process holds a lease is there, and what it says
/// is the concern of those who read it later: no pod waits for the holder.
fn open_unless_leased(path: &Path) -> Result<(), StoreError> {
    match Store::open(path) {
        Err(error) if error.is_leased() => Ok(()),
        opened => opened.map(drop),
    }
}

fn is_store(path: &Path) -> bool {
    open_unless_leased(path).is_ok()
}

fn unusable(config: &StoreConfig, source: StoreError) -> VolumeError {
    VolumeError::Store {
        name: config.name.clone(),
        source: Box::new(source),
    }
}
