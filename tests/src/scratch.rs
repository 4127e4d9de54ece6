//! Stores and directories that a test must itself.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use tetris_agent::Agent;
use tetris_store_layout::{CreateOptions, Store, Usage};

use crate::mount::Mount;
use crate::skip::is_root;

/// Its own store and a directory for models.
#[derive(Debug)]
pub struct Scratch {
    /// Declared first: closed before what it lies on goes away.
    store: Store,
    /// Usage of the store's file system when the store was new, if no one else uses it.
    empty: Option<Usage>,
    place: Place,
    models: TempDir,
}

#[derive(Debug)]
enum Place {
    Mounted(Mount),
    Directory(TempDir),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Mounted(mount) => mount.path(),
            Self::Directory(dir) => dir.path(),
        }
    }
}

impl Scratch {
    /// A store on its own tmpfs for root, else in a directory of /dev/shm.
    pub fn new() -> anyhow::Result<Self> {
        if is_root() {
            Self::mounted("size=512m")
        } else {
            Self::in_directory(tempfile::tempdir_in("/dev/shm")?)
        }
    }

    /// A store on a tmpfs with these options. Needs root.
    pub fn mounted(options: &str) -> anyhow::Result<Self> {
        let mount = Mount::tmpfs(options)?;
        let store = Store::create(mount.path(), &CreateOptions::default())?;
        let empty = Some(store.usage()?);
        Self::with(store, empty, Place::Mounted(mount))
    }

    fn in_directory(dir: TempDir) -> anyhow::Result<Self> {
        let store = Store::create(dir.path(), &CreateOptions::default())?;
        Self::with(store, None, Place::Directory(dir))
    }

    fn with(store: Store, empty: Option<Usage>, place: Place) -> anyhow::Result<Self> {
        let models = tempfile::tempdir().context("directory for models")?;
        Ok(Self {
            store,
            empty,
            place,
            models,
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        self.place.path()
    }

    /// Usage of the store's file system when the store was new; `None` when others use it too.
    pub fn empty_usage(&self) -> Option<Usage> {
        self.empty
    }

    /// The mount that the store is on, if the store has a separate one.
    pub fn mount(&self) -> Option<&Mount> {
        match &self.place {
            Place::Mounted(mount) => Some(mount),
            Place::Directory(_) => None,
        }
    }

    /// A new agent that uses the store.
    pub fn agent(&self) -> anyhow::Result<Agent> {
        Ok(Agent::open_store(self.root())?)
    }

    /// The directory for models.
    pub fn models(&self) -> &Path {
        self.models.path()
    }

    /// Path of a model called `name`.
    pub fn model(&self, name: &str) -> PathBuf {
        self.models.path().join(format!("{name}.safetensors"))
    }

    /// Gives store and models to another user, so that a worker of that user can be their owner.
    pub fn give_to(&self, uid: u32) -> anyhow::Result<()> {
        let owner = Some(nix::unistd::Uid::from_raw(uid));
        let group = Some(nix::unistd::Gid::from_raw(uid));
        let root = self.root().to_owned();
        let mut paths = vec![root.clone(), self.models().to_owned()];
        for entry in std::fs::read_dir(&root)?.chain(std::fs::read_dir(self.models())?) {
            paths.push(entry?.path());
        }
        for path in paths {
            nix::unistd::chown(&path, owner, group)
                .with_context(|| format!("chown {}", path.display()))?;
        }
        Ok(())
    }
}
