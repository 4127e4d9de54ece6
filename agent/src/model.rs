//! A loaded model: tensors by name, over memory that is shared where it can be.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tetris_loader::LoadError;
use tetris_store_layout::{Dtype, ManifestId, ObjectRef, TensorId};

use crate::detached::{DetachedTensor, Region};
use crate::loaded_file::{LoadedFile, TensorEntry};
use crate::origin::Origin;
use crate::report::LoadReport;

/// A model in memory.
///
/// It holds the references to its objects: they stay in the store until the last thread has dropped
/// it. Share it between threads by reference or in an `Arc`.
#[derive(Debug)]
pub struct Model {
    parts: Vec<LoadedFile>,
    /// LoadedFile and index of each tensor, in file order.
    order: Vec<(u32, u32)>,
    by_name: OnceLock<HashMap<String, (u32, u32)>>,
    report: LoadReport,
}

/// A tensor of a model.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'model> {
    entry: &'model TensorEntry,
    bytes: &'model [u8],
    origin: Origin,
}

impl Model {
    /// Joins the files of a model. `weight_map` names the file that a tensor is to come from.
    pub(crate) fn new(
        parts: Vec<LoadedFile>,
        weight_map: Option<&BTreeMap<String, PathBuf>>,
    ) -> Result<Self, LoadError> {
        let mut model = Self {
            order: file_order(&parts, weight_map)?,
            parts: Vec::new(),
            by_name: OnceLock::new(),
            report: LoadReport::default(),
        };
        for part in &parts {
            model.report.add(part.report.clone());
        }
        model.parts = parts;
        Ok(model)
    }

    /// The tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.order.iter().map(|&at| self.at(at))
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.index().get(name).map(|&at| self.at(at))
    }

    /// The bytes of the tensor called `name` for writing. `None` when there is no such tensor, or
    /// when the model is mapped read-only.
    pub fn tensor_mut(&mut self, name: &str) -> Option<&mut [u8]> {
        let &(part, index) = self.index().get(name)?;
        let LoadedFile {
            entries, backings, ..
        } = self.parts.get_mut(part as usize)?;
        let entry = entries.get(index as usize)?;
        let Some(place) = entry.place else {
            return Some(&mut []);
        };
        backings.at_mut(place, entry.len)
    }

    /// The `__metadata__` of the files, in their order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.parts.iter().flat_map(|part| &part.metadata);
        pairs.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The manifests of the files, in their order; `None` for a file that was not hashed, because
    /// there is no store or sharing it is not worth its cost.
    pub fn manifests(&self) -> impl Iterator<Item = (&Path, Option<ManifestId>)> {
        self.parts
            .iter()
            .map(|part| (part.path.as_path(), part.manifest))
    }

    /// The objects that this model references in the store.
    pub fn objects(&self) -> impl Iterator<Item = ObjectRef> {
        self.parts.iter().flat_map(|part| part.backings.stored())
    }

    /// The tensors, in file order, each with its own hold on the memory, and what the load did.
    pub fn detach(self) -> (Vec<DetachedTensor>, LoadReport) {
        type Held = (Vec<Option<TensorEntry>>, Vec<(Arc<Region>, usize)>);
        let mut parts: Vec<Held> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let entries = part.entries.into_iter().map(Some).collect();
            parts.push((entries, part.backings.into_regions()));
        }
        let tensors = self.order.iter().filter_map(|&(part, index)| {
            let (entries, regions) = parts.get_mut(part as usize)?;
            let entry = entries.get_mut(index as usize)?.take()?;
            let place = entry.place.and_then(|place| {
                let (region, begin) = regions.get(place.object as usize)?;
                Some((Arc::clone(region), begin + place.offset as usize))
            });
            let origin = place
                .as_ref()
                .map_or(Origin::Empty, |(region, _)| region.origin());
            let (region, offset) = place.unzip();
            Some(DetachedTensor {
                name: entry.name,
                dtype: entry.dtype,
                shape: entry.shape,
                id: entry.id,
                origin,
                len: entry.len as usize,
                offset: offset.unwrap_or(0),
                region,
            })
        });
        (tensors.collect(), self.report)
    }

    /// The report of the load.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    pub(crate) fn report_mut(&mut self) -> &mut LoadReport {
        &mut self.report
    }

    fn index(&self) -> &HashMap<String, (u32, u32)> {
        self.by_name.get_or_init(|| {
            let named = |&at: &(u32, u32)| Some((self.entry(at)?.name.clone(), at));
            self.order.iter().filter_map(named).collect()
        })
    }

    fn entry(&self, (part, index): (u32, u32)) -> Option<&TensorEntry> {
        self.parts.get(part as usize)?.entries.get(index as usize)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`order` holds indices of `parts` and `entries`, checked when it was made"
    )]
    fn at(&self, (part, index): (u32, u32)) -> Tensor<'_> {
        let part = &self.parts[part as usize];
        let entry = &part.entries[index as usize];
        let bytes_at = entry
            .place
            .and_then(|place| part.backings.at(place, entry.len));
        let (bytes, origin) = bytes_at.unwrap_or((&[], Origin::Empty));
        debug_assert_eq!(bytes.len() as u64, entry.len);
        Tensor {
            entry,
            bytes,
            origin,
        }
    }
}

/// File and index of each tensor of a model of several files, in file order. `weight_map` names the file that
/// a tensor is to come from.
pub(crate) fn file_order(
    parts: &[LoadedFile],
    weight_map: Option<&BTreeMap<String, PathBuf>>,
) -> Result<Vec<(u32, u32)>, LoadError> {
    let mut order = Vec::with_capacity(parts.iter().map(|part| part.entries.len()).sum());
    let several = parts.len() > 1;
    let mut first: HashMap<&str, &Path> = HashMap::new();
    for (p, part) in parts.iter().enumerate() {
        for (t, entry) in part.entries.iter().enumerate() {
            if several {
                let named = weight_map.and_then(|map| map.get(&entry.name));
                if named.is_some_and(|file| *file != part.path) {
                    continue;
                }
                if let Some(first) = first.insert(&entry.name, &part.path) {
                    return Err(LoadError::DuplicateTensor {
                        name: entry.name.clone(),
                        first: first.to_owned(),
                        second: part.path.clone(),
                    });
                }
            }
            order.push((p as u32, t as u32));
        }
    }
    if let Some(map) = weight_map {
        require_all(map, parts)?;
    }
    Ok(order)
}

/// Every tensor that the index names must be in the file that it names.
fn require_all(map: &BTreeMap<String, PathBuf>, parts: &[LoadedFile]) -> Result<(), LoadError> {
    let have: std::collections::HashSet<(&str, &Path)> = parts
        .iter()
        .flat_map(|part| {
            part.entries
                .iter()
                .map(|e| (e.name.as_str(), part.path.as_path()))
        })
        .collect();
    for (name, file) in map {
        if !have.contains(&(name.as_str(), file.as_path())) {
            return Err(LoadError::MissingTensor {
                name: name.clone(),
                file: file.clone(),
            });
        }
    }
    Ok(())
}

impl<'model> Tensor<'model> {
    /// The tensor's name.
    pub fn name(&self) -> &'model str {
        &self.entry.name
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.entry.dtype
    }

    /// Dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &'model [u64] {
        &self.entry.shape
    }

    /// The elements, row-major, little-endian, at an address that is a multiple of 64.
    pub fn bytes(&self) -> &'model [u8] {
        self.bytes
    }

    /// Identity of the bytes; `None` when they were not hashed, because there is no store or sharing the
    /// file is not worth its cost.
    pub fn id(&self) -> Option<TensorId> {
        self.entry.id
    }

    /// Origin of the bytes.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

/// A file kept whole in the store, for programs that map it by path.
#[derive(Debug)]
pub struct SharedFile {
    part: LoadedFile,
    store_path: Option<PathBuf>,
}

impl SharedFile {
    pub(crate) fn new(part: LoadedFile, store_path: Option<PathBuf>) -> Self {
        Self { part, store_path }
    }

    /// Path to map the content by while this value lives: in the store, or of the original file if
    /// the store could not take it.
    pub fn path(&self) -> &Path {
        self.store_path.as_deref().unwrap_or(&self.part.path)
    }

    /// The memory alone, if the content is in the store, and what the load did.
    pub fn detach(self) -> (Option<Arc<Region>>, LoadReport) {
        let mut regions = self.part.backings.into_regions().into_iter();
        (regions.next().map(|(region, _)| region), self.part.report)
    }

    /// Returns true if [`SharedFile::path`] is in the store.
    pub fn is_shared(&self) -> bool {
        self.store_path.is_some()
    }

    /// The content, if it is in the store.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.part.backings.object(0)
    }

    /// The file's manifest, if it was hashed.
    pub fn manifest(&self) -> Option<ManifestId> {
        self.part.manifest
    }

    /// The report of the load.
    pub fn report(&self) -> &LoadReport {
        &self.part.report
    }
}
