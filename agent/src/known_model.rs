//! Models that the store knows, without a mapping of their objects: for callers that only name them.

use std::path::Path;
use std::time::Instant;

use tetris_loader::{Recognized, Source, hub};
use tetris_store_layout::{Dtype, ManifestKind, ObjectRef, TensorId};

use crate::agent::Agent;
use crate::backing::Backings;
use crate::detached::DetachedTensor;
use crate::load::KnownFile;
use crate::loaded_file::LoadedFile;
use crate::model::file_order;
use crate::options::LoadOptions;
use crate::report::LoadReport;

/// A tensor by its place in the store.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) id: Option<TensorId>,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Object, and offset there in bytes; `None` for a tensor without bytes, or in private memory.
    pub(crate) place: Option<(ObjectRef, u64)>,
}

impl From<&DetachedTensor> for StoredTensor {
    fn from(tensor: &DetachedTensor) -> Self {
        let object = tensor.region.as_ref().and_then(|region| region.object());
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            id: tensor.id,
            len: tensor.len as u64,
            place: object.map(|object| (*object, tensor.offset as u64)),
        }
    }
}

/// A model whose files the store knows by their identities. It counts once they were compared
/// ([`Self::while_compared`]).
#[derive(Debug)]
pub(crate) struct KnownModel {
    files: Vec<(Source, KnownFile)>,
    /// The tensors, in file order.
    pub(crate) tensors: Vec<StoredTensor>,
    pub(crate) metadata: Vec<(String, String)>,
    /// As of a load that found all objects. For [`Agent::count`], once they were found.
    pub(crate) report: LoadReport,
}

impl KnownModel {
    /// Compares the files with their objects where they are to be (INV-11), and calls `ask` meanwhile: so that asking
    /// others for the objects does not wait for it. Returns what `ask` does if all files agree, or else `None`.
    pub(crate) fn while_compared<T>(
        &self,
        agent: &Agent,
        options: &LoadOptions,
        ask: impl FnOnce() -> T,
    ) -> Option<T> {
        let agree = || {
            let context = agent.load_context(options);
            let mut files = self.files.iter();
            files.all(|(source, known)| context.agrees(source, known))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("tetris-compare".to_owned());
            match thread.spawn_scoped(scope, agree) {
                Ok(comparing) => {
                    let asked = ask();
                    comparing.join().is_ok_and(|agrees| agrees).then_some(asked)
                }
                // Without another thread, one after the other.
                Err(_) => agree().then(ask),
            }
        })
    }
}

impl Agent {
    /// The model at `path`, if the store knows each of its files, as [`Agent::load_with`] recognizes them. Its objects
    /// are not referenced, and some may not be in the store any more. `None` also for whatever a load explains further.
    pub(crate) fn known_model(&self, path: &Path, options: &LoadOptions) -> Option<KnownModel> {
        let begun = Instant::now();
        let layout = hub::resolve(path).ok()?;
        let context = self.load_context(options);
        let (mut files, mut loaded, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let mut report = LoadReport::default();
        for path in &layout.files {
            let source = Source::open(path).ok()?;
            let known = context.known(&source)?;
            let refs: Vec<ObjectRef> = known
                .manifest
                .objects
                .iter()
                .map(|entry| entry.object)
                .collect();
            let bytes_shared = refs.iter().map(|object| object.len).sum();
            let is_other = known.recognized == Recognized::ByBlobName
                && source.stat_key(ManifestKind::Safetensors).is_some();
            report.add(LoadReport {
                recognized: vec![known.recognized],
                tensors: known.manifest.tensors.len() as u64,
                objects: refs.len() as u64,
                bytes_shared,
                bytes_of_other_files: if is_other { bytes_shared } else { 0 },
                store: self.store().map(|store| store.root().to_owned()),
                ..LoadReport::default()
            });
            objects.push(refs);
            loaded.push(LoadedFile::new(
                path,
                known.id,
                known.manifest.clone(),
                Backings::default(),
                LoadReport::default(),
            ));
            files.push((source, known));
        }
        let order = file_order(&loaded, layout.weight_map.as_ref()).ok()?;
        let stored = |(file, index): (u32, u32)| {
            let entry = loaded.get(file as usize)?.entries.get(index as usize)?;
            let place = match entry.place {
                Some(place) => {
                    let object = objects.get(file as usize)?.get(place.object as usize)?;
                    Some((*object, place.offset))
                }
                None => None,
            };
            Some(StoredTensor {
                name: entry.name.clone(),
                dtype: entry.dtype,
                shape: entry.shape.clone(),
                id: entry.id,
                len: entry.len,
                place,
            })
        };
        let tensors = order.into_iter().map(stored).collect::<Option<_>>()?;
        let metadata = loaded
            .iter()
            .flat_map(|file| file.metadata.clone())
            .collect();
        report.duration = begun.elapsed();
        Some(KnownModel {
            files,
            tensors,
            metadata,
            report,
        })
    }
}
