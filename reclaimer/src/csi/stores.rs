//! Stores for pods; creation and removal of the stores of namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::choose::{Chosen, OwnStore, choose};
use super::config::{MAX_STORES, PerNamespace};
use super::error::VolumeError;
use crate::models::{ModelQuestion, ModelState, MountAnswer, MountOrder};
use crate::mount::{DirectoryError, StoreDirectory, StoreGround, is_tmpfs_mount};
use crate::store::StoreConfig;

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

/// Keeper of the stores of namespaces: the process that owns them.
#[tonic::async_trait]
pub trait Keeper: Send + Sync {
    /// Waits for a while until a store that was just made is looked after. The pod that it was made
    /// for starts when this returns.
    async fn look_after(&self, store: &StoreConfig, directory: &StoreDirectory);

    /// Removes a store with its contents, unless some of it is mapped.
    async fn remove(&self, store: &StoreConfig) -> Removal;

    /// The state of a model on this node.
    ///
    /// # Errors
    /// When the keeper cannot be asked, for this reason.
    async fn model(&self, question: &ModelQuestion) -> Result<ModelState, String>;

    /// Has a pod that keeps a model answer for a mount of it, by its descriptor. Blocks for some seconds at most.
    ///
    /// # Errors
    /// When the keeper cannot be asked.
    fn mount_model(&self, order: &MountOrder, device: BorrowedFd<'_>) -> io::Result<MountAnswer>;
}

/// A store that a pod gets.
#[derive(Debug)]
pub(super) struct Given {
    /// Its name and path.
    pub config: StoreConfig,
    /// Its directory.
    pub directory: StoreDirectory,
    /// True if it was made for this pod.
    pub is_new: bool,
}

/// The stores that pods can get.
pub struct Stores {
    fixed: Vec<StoreConfig>,
    ground: StoreGround,
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
    /// care of `keeper`. All lie on `ground`.
    pub fn new(
        fixed: Vec<StoreConfig>,
        ground: StoreGround,
        keeper: impl Keeper + 'static,
    ) -> Self {
        Self {
            fixed,
            ground,
            keeper: Box::new(keeper),
            gone: Mutex::default(),
        }
    }

    /// Returns true if every configured store can be used.
    pub(super) fn are_there(&self) -> bool {
        self.fixed.iter().all(|store| self.is_store(&store.path))
    }

    /// Devices that the configured stores and those of `rule` lie on.
    pub(super) fn devices<'a>(
        &'a self,
        rule: Option<&'a PerNamespace>,
    ) -> impl Iterator<Item = u64> + 'a {
        let fixed = self.fixed.iter().map(|store| store.path.as_path());
        let paths = fixed.chain(rule.map(PerNamespace::parent));
        paths.filter_map(|path| self.ground.open(path).ok()??.device().ok())
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

    /// A configured store, if it can be used.
    pub(super) fn fixed(&self, config: &StoreConfig) -> Result<Given, VolumeError> {
        Ok(Given {
            config: config.clone(),
            directory: self.open(config)?,
            is_new: false,
        })
    }

    /// The store of the namespace with this identifier, made if need be. Not to be called twice at
    /// once.
    pub(super) fn own(
        &self,
        rule: &PerNamespace,
        namespace: &str,
        uid: &str,
    ) -> Result<Given, VolumeError> {
        let store = OwnStore::new(&self.fixed, rule, namespace, uid)?;
        if let Ok(directory) = self.open(&store.config) {
            return Ok(Given {
                config: store.config,
                directory,
                is_new: false,
            });
        }
        let directory = self.make(rule, &store, uid)?;
        Ok(Given {
            config: store.config,
            directory,
            is_new: true,
        })
    }

    fn make(
        &self,
        rule: &PerNamespace,
        own: &OwnStore,
        uid: &str,
    ) -> Result<StoreDirectory, VolumeError> {
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
        let made = self.ground.create_store(&config.path);
        let made = made.map_err(|source| unusable(config, source))?;
        tracing::info!(store = config.name, path = %config.path.display(), namespace = own.namespace, namespace_uid = uid, "store made");
        Ok(made)
    }

    /// Waits for a while until a new store is looked after.
    pub(super) async fn await_keeper(&self, new: &Given) {
        self.keeper.look_after(&new.config, &new.directory).await;
    }

    /// The process that owns the stores.
    pub(super) fn keeper(&self) -> &dyn Keeper {
        &*self.keeper
    }

    /// The directory of a store.
    fn open(&self, config: &StoreConfig) -> Result<StoreDirectory, VolumeError> {
        let path = &config.path;
        let opened = self.ground.open(path);
        let opened = opened.and_then(|found| found.ok_or(io::ErrorKind::NotFound.into()));
        let opened = opened.map_err(|source| DirectoryError::Io {
            action: "open",
            path: path.clone(),
            source,
        });
        let opened = opened.and_then(|directory| directory.check().map(|()| directory));
        opened.map_err(|source| unusable(config, source))
    }

    /// The directory at `path`, if there is one.
    pub(super) fn directory(&self, path: &Path) -> Result<Option<StoreDirectory>, VolumeError> {
        self.ground
            .open(path)
            .map_err(VolumeError::io("open", path))
    }

    fn is_store(&self, path: &Path) -> bool {
        let directory = self.ground.open(path);
        directory.is_ok_and(|found| found.is_some_and(|found| found.check().is_ok()))
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
        let configured = |path: &Path| self.fixed.iter().any(|fixed| fixed.path.starts_with(path));
        let mut stores = named_like_stores(rule);
        stores.retain(|store| {
            // A directory of someone else can be called like a namespace. One with an identifier
            // is ours, damaged or not.
            let ours = store.uid.is_some() || self.is_store(&store.config.path);
            ours && !configured(&store.config.path)
        });
        stores.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        stores
    }

    /// Removes a store whose namespace is gone for certain, or that no pod gets any more. While a
    /// volume of it is mounted, or an object mapped, it stays for another attempt.
    pub(super) async fn remove(&self, store: &OwnStore) -> Removal {
        let config = &store.config;
        if let Some(uid) = &store.uid {
            self.gone
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(uid.clone());
        }
        let removal = match self.is_mounted(&config.path) {
            Ok(true) => Removal::InUse,
            Ok(false) => self.keeper.remove(config).await,
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

    fn is_mounted(&self, path: &Path) -> io::Result<bool> {
        let directory = self.ground.open(path)?;
        directory.map_or(Ok(false), |directory| directory.is_mounted())
    }
}

/// Directories whose names are those of stores of namespaces, as many as there can be stores.
pub(crate) fn named_like_stores(rule: &PerNamespace) -> Vec<OwnStore> {
    let Ok(entries) = std::fs::read_dir(rule.parent()) else {
        return Vec::new();
    };
    let stores = entries.flatten().filter_map(|entry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        OwnStore::of_directory(rule, name.to_str().filter(|_| is_directory)?)
    });
    stores.take(MAX_STORES).collect()
}

fn unusable(config: &StoreConfig, source: DirectoryError) -> VolumeError {
    VolumeError::Store {
        name: config.name.clone(),
        source,
    }
}
