//! The objects to make of a model file, from its header.

use std::path::Path;

use tetris_store_layout::{
    Dtype, MAX_OBJECTS, Manifest, ManifestKind, ManifestObject, ManifestTensor, ObjectKind,
    ObjectRef, PackPlan, TensorId, TensorPlace, plan_packs, small_tensor_threshold,
};

use crate::error::{LoadError, LoadFailure};
use crate::header::{Header, TensorInfo};
use crate::job::{Job, Piece};
use crate::model_bytes::ModelBytes;
use crate::pack_small::SmallTensors;
use crate::source::Source;

/// The objects to make of a model file, and the place of each tensor in them.
#[derive(Debug)]
pub struct Plan {
    /// One per object.
    pub jobs: Vec<Job>,
    /// One per tensor, in file order.
    pub tensors: Vec<PlannedTensor>,
}

/// A tensor in a plan.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Identity of the bytes of a small tensor; not yet known for the others.
    pub id: Option<TensorId>,
    /// Job and offset; `None` for a tensor without bytes.
    pub place: Option<TensorPlace>,
}

/// The dtype as the store spells it.
fn dtype(tensor: &TensorInfo, path: &Path) -> Result<Dtype, LoadError> {
    let name = tensor.dtype.to_string();
    Dtype::from_name(&name).ok_or_else(|| LoadError::Dtype {
        path: path.to_owned(),
        tensor: tensor.name.clone(),
        dtype: name,
    })
}

impl Plan {
    /// One object per large tensor, and packs of small ones (LAYOUT.md 7).
    pub(crate) fn of_header(
        header: &Header,
        bytes: &dyn ModelBytes,
        threads: usize,
    ) -> Result<Self, LoadFailure> {
        let lengths: Vec<u64> = header.tensors.iter().map(TensorInfo::byte_len).collect();
        let mut threshold = small_tensor_threshold(&lengths, MAX_OBJECTS);
        loop {
            let small = SmallTensors::read(header, threshold, bytes, threads)?;
            let items: Vec<_> = small.list.iter().map(|tensor| tensor.item).collect();
            let packs = plan_packs(&items, threshold);
            let large = lengths.iter().filter(|&&len| len >= threshold).count();
            if large + packs.len() <= MAX_OBJECTS {
                let plan = Self::assemble(header, threshold, &small, packs, bytes.path())?;
                return Ok(plan);
            }
            threshold *= 2;
        }
    }

    fn assemble(
        header: &Header,
        threshold: u64,
        small: &SmallTensors,
        packs: Vec<PackPlan>,
        path: &Path,
    ) -> Result<Self, LoadError> {
        let mut plan = Self {
            jobs: Vec::new(),
            tensors: Vec::with_capacity(header.tensors.len()),
        };
        for tensor in &header.tensors {
            let len = tensor.byte_len();
            let place = (len >= threshold).then_some(TensorPlace {
                object: plan.jobs.len() as u32,
                offset: 0,
            });
            if place.is_some() {
                let start = header.data_start + tensor.begin;
                plan.jobs.push(Job::single(ObjectKind::Tensor, start, len));
            }
            let id = (len == 0).then(|| TensorId::of(b""));
            let dtype = dtype(tensor, path)?;
            plan.tensors.push(PlannedTensor { dtype, id, place });
        }
        for pack in packs {
            let object = plan.jobs.len() as u32;
            let mut pieces = Vec::with_capacity(pack.items.len());
            for (item, offset) in pack.items {
                let Some(tensor) = small.list.get(item) else {
                    continue;
                };
                let (Some(info), Some(planned)) = (
                    header.tensors.get(tensor.index),
                    plan.tensors.get_mut(tensor.index),
                ) else {
                    continue;
                };
                planned.id = Some(tensor.item.id);
                planned.place = Some(TensorPlace { object, offset });
                pieces.push(Piece {
                    source: header.data_start + info.begin,
                    len: tensor.item.len,
                    at: offset,
                    kept: small.kept(tensor),
                });
            }
            plan.jobs.push(Job {
                kind: ObjectKind::Pack,
                len: pack.len,
                pieces,
            });
        }
        Ok(plan)
    }

    /// One object per tensor that has bytes, without reading anything: for private memory.
    ///
    /// # Errors
    /// [`LoadError::Dtype`] for elements of a type that the store does not know.
    pub fn one_per_tensor(header: &Header, source: &Source) -> Result<Self, LoadError> {
        let mut plan = Self {
            jobs: Vec::new(),
            tensors: Vec::new(),
        };
        for tensor in &header.tensors {
            let place = (tensor.byte_len() > 0).then_some(TensorPlace {
                object: plan.jobs.len() as u32,
                offset: 0,
            });
            if place.is_some() {
                let start = header.data_start + tensor.begin;
                let job = Job::single(ObjectKind::Tensor, start, tensor.byte_len());
                plan.jobs.push(job);
            }
            let (dtype, id) = (dtype(tensor, source.path())?, None);
            plan.tensors.push(PlannedTensor { dtype, id, place });
        }
        Ok(plan)
    }

    /// One object of the whole file.
    pub(crate) fn whole_file(len: u64) -> Self {
        Self {
            jobs: vec![Job::single(ObjectKind::File, 0, len)],
            tensors: Vec::new(),
        }
    }

    /// The manifest, now that the jobs have become `objects`.
    pub(crate) fn into_manifest(
        self,
        file: FileShape,
        header: Option<Header>,
        objects: &[ObjectRef],
    ) -> Manifest {
        let (infos, metadata) = header.map_or_else(Default::default, |header| {
            (header.tensors, header.metadata.into_iter().collect())
        });
        let object = |place: &TensorPlace| objects.get(place.object as usize);
        let tensors = infos
            .into_iter()
            .zip(self.tensors)
            .map(|(info, planned)| {
                let object_at_place = || {
                    planned
                        .place
                        .as_ref()
                        .and_then(object)
                        .map(|o| TensorId(o.id.0))
                };
                ManifestTensor {
                    len: info.byte_len(),
                    source_offset: info.begin,
                    dtype: planned.dtype,
                    shape: info.shape,
                    id: planned
                        .id
                        .or_else(object_at_place)
                        .unwrap_or(TensorId::of(b"")),
                    place: planned.place,
                    name: info.name,
                }
            })
            .collect();
        Manifest {
            kind: file.kind,
            source_size: file.size,
            data_start: file.data_start,
            header_digest: file.header_digest,
            metadata,
            objects: objects
                .iter()
                .zip(&self.jobs)
                .map(|(&object, job)| ManifestObject {
                    object,
                    kind: job.kind,
                })
                .collect(),
            tensors,
        }
    }
}

/// The fields of a manifest that describe the file as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileShape {
    pub(crate) kind: ManifestKind,
    pub(crate) size: u64,
    pub(crate) data_start: u64,
    pub(crate) header_digest: tetris_store_layout::Digest,
}
