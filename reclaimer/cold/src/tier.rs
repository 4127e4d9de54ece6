//! The cold tier of a node: a cold store for each tensor store, on one disk of which they have a share.

use std::cmp::Reverse;
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tetris_store_layout::{DerivedId, IoError, Store};

use crate::cold_store::{ColdStore, Kept};
use crate::error::ColdError;
use crate::model::{ListedModel, ModelScan};

/// The cold stores of a node.
#[derive(Debug)]
pub struct ColdTier {
    limits: ColdLimits,
    directory: PathBuf,
    stores: BTreeMap<String, Member>,
}

/// Limits of a cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdLimits {
    /// Most bytes on the disk.
    pub bytes: u64,
    /// Percent of the disk that stays free.
    pub free_percent: u8,
}

/// The cold store of one tensor store.
#[derive(Debug)]
struct Member {
    cold: ColdStore,
    scan: ModelScan,
    /// Models without room, with the time of their last use then.
    skipped: HashMap<DerivedId, SystemTime>,
}

/// Use of the disk by one tensor store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdUse {
    /// Name of the store.
    pub store: String,
    /// Number of models.
    pub models: usize,
    /// Number of bytes.
    pub bytes: u64,
}

impl ColdTier {
    /// The tier in `directory`, with the cold stores there. Those that cannot be opened are left out.
    pub fn new(directory: &Path, limits: ColdLimits) -> Self {
        let mut tier = Self {
            limits,
            directory: directory.to_owned(),
            stores: BTreeMap::new(),
        };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            if Store::id_in(directory.join(&name)).is_err() {
                continue;
            }
            if let Err(error) = tier.open(&name) {
                tracing::warn!(store = name, %error, "a cold store is left out");
            }
        }
        tier
    }

    /// The cold store of the tensor store `name`, made if it is missing.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn open(&mut self, name: &str) -> Result<&mut ColdStore, ColdError> {
        Ok(&mut self.member(name)?.cold)
    }

    fn member(&mut self, name: &str) -> Result<&mut Member, ColdError> {
        match self.stores.entry(name.to_owned()) {
            Entry::Occupied(member) => Ok(member.into_mut()),
            Entry::Vacant(place) => {
                make_directory(&self.directory)?;
                Ok(place.insert(Member {
                    cold: ColdStore::open(&self.directory.join(name))?,
                    scan: ModelScan::default(),
                    skipped: HashMap::new(),
                }))
            }
        }
    }

    /// Keeps the models of the tensor store `name` that the disk does not have, and notes which of the others were used. `keep_on` is
    /// asked before each object. Returns what was kept; models without room are tried again once they were used.
    ///
    /// # Errors
    /// When the stores cannot be listed. A model that cannot be kept is a warning.
    pub fn keep_models(
        &mut self,
        name: &str,
        warm: &Store,
        keep_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Kept>, ColdError> {
        let member = self.member(name)?;
        let (mut used, mut new) = (HashMap::new(), Vec::new());
        for model in member.cold.models()? {
            used.insert(model.id, model.last_used);
        }
        let mut listed = HashSet::new();
        for model in member.scan.models(warm)? {
            listed.insert(model.id);
            match used.get(&model.id) {
                Some(last_used) if member.cold.has(&model) => {
                    if model.last_used > *last_used {
                        member.cold.touch(&model)?;
                    }
                }
                _ if member.skipped.get(&model.id) == Some(&model.last_used) => {}
                _ => new.push(model),
            }
        }
        member.skipped.retain(|id, _| listed.contains(id));
        new.sort_by_key(|model| Reverse(model.last_used));
        let mut kept = Vec::new();
        for model in new {
            if !keep_on() {
                break;
            }
            match self.keep(name, &model, warm, keep_on) {
                Ok(Some(model)) => kept.push(model),
                // Asked to stop, it goes on another time.
                Ok(None) if !keep_on() => break,
                Ok(None) => self.skip(name, &model),
                // Parts of it may still come.
                Err(error @ ColdError::Incomplete { .. }) => {
                    tracing::debug!(store = name, %error, "a model is not kept yet");
                }
                Err(error) => {
                    tracing::warn!(store = name, %error, "a model is not kept on the disk");
                    self.skip(name, &model);
                }
            }
        }
        Ok(kept)
    }

    fn skip(&mut self, name: &str, model: &ListedModel) {
        if let Some(member) = self.stores.get_mut(name) {
            member.skipped.insert(model.id, model.last_used);
        }
    }

    /// Keeps one model. Returns `None` where only models used later could make room for it, or after a no of `keep_on`.
    fn keep(
        &mut self,
        name: &str,
        model: &ListedModel,
        warm: &Store,
        keep_on: &dyn Fn() -> bool,
    ) -> Result<Option<Kept>, ColdError> {
        let limits = self.limits;
        loop {
            let cold = self.open(name)?;
            let (source_name, bytes) = cold.missing(model, warm)?;
            if bytes > limits.bytes {
                return Err(ColdError::TooLarge {
                    source_name,
                    bytes,
                    size: limits.bytes,
                });
            }
            if self.has_room(bytes)? {
                break;
            }
            if !self.remove_before(model)? {
                return Ok(None);
            }
        }
        let cold = self.open(name)?;
        let is_newer = cold.lists(model);
        let kept = cold.keep(model, warm, keep_on);
        // Parts of it may have filled the disk, and those of the list before it are of no use.
        if kept.is_err() || (is_newer && matches!(kept, Ok(Some(_)))) {
            cold.collect()?;
        }
        kept
    }

    fn has_room(&self, bytes: u64) -> Result<bool, ColdError> {
        let mut used = 0;
        let mut is_free = true;
        for member in self.stores.values() {
            used += member.cold.bytes()?;
            let disk = member.cold.store().usage()?;
            let kept_free = disk.capacity / 100 * u64::from(self.limits.free_percent);
            is_free &= disk.free.saturating_sub(bytes) >= kept_free;
        }
        Ok(is_free && used + bytes <= self.limits.bytes)
    }

    /// Removes what no model needs of the store with the most bytes, or else its least recently used model, if `model` was used later.
    /// Returns false if it removed nothing.
    fn remove_before(&mut self, model: &ListedModel) -> Result<bool, ColdError> {
        let mut largest: Option<(u64, &mut ColdStore)> = None;
        for member in self.stores.values_mut() {
            let bytes = member.cold.bytes()?;
            if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                largest = Some((bytes, &mut member.cold));
            }
        }
        let Some((before, cold)) = largest else {
            return Ok(false);
        };
        // First what damaged and unfinished models left.
        cold.collect()?;
        if cold.bytes()? < before {
            return Ok(true);
        }
        let oldest = cold.models()?.pop();
        let Some(oldest) = oldest.filter(|oldest| oldest.last_used < model.last_used) else {
            return Ok(false);
        };
        let directory = cold.store().root().display();
        tracing::info!(store = %directory, "a model leaves the cold tier for one used later");
        cold.remove(&oldest)?;
        Ok(true)
    }

    /// Removes the models of a tensor store whose tenant is gone.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn forget(&mut self, name: &str) -> std::io::Result<()> {
        self.stores.remove(name);
        match std::fs::remove_dir_all(self.directory.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Use of the disk by store.
    pub fn usage(&mut self) -> Vec<ColdUse> {
        let stores = self.stores.iter_mut();
        let usage = stores.map(|(name, member)| ColdUse {
            store: name.clone(),
            models: member.cold.models().map_or(0, |models| models.len()),
            bytes: member.cold.bytes().unwrap_or_default(),
        });
        usage.collect()
    }
}

/// Makes the directory of the tier where it is missing. Its content is for no other user.
fn make_directory(path: &Path) -> Result<(), ColdError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    let failed = |source| IoError::new("make the directory of the cold tier", path, source);
    Ok(made.map_err(failed)?)
}
