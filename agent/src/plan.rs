//! From a file's header, or a manifest, to the objects that are to be made.

use std::sync::Arc;

use tetris_store_layout::{
    Dtype, MAX_OBJECTS, Manifest, ManifestKind, ManifestObject, ManifestTensor, ObjectKind,
    ObjectRef, PackPlan, Place, TensorId, plan_packs, small_tensor_threshold,
};

use crate::error::LoadError;
use crate::header::{Header, TensorInfo};
use crate::private::PrivateBytes;
use crate::small::SmallTensors;
use crate::source::{Failure, Source};

/// A run of bytes of an object.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where the bytes are in the model file, from its beginning.
    pub(crate) source: u64,
    pub(crate) len: u64,
    /// Where they go in the object.
    pub(crate) at: u64,
    /// The bytes, if they have been read already.
    pub(crate) kept: Option<Kept>,
}

/// Bytes that were read before.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) bytes: Arc<PrivateBytes>,
    /// Where they begin.
    pub(crate) at: u64,
}

/// An object that is to be made of parts of the model file. Gaps between pieces are zeros.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) kind: ObjectKind,
    pub(crate) len: u64,
    /// Ascending in `at`.
    pub(crate) pieces: Vec<Piece>,
}

/// What is to be made of a model file, and which tensor will be where.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    /// Ids are those of the tensor's bytes for small tensors, and not yet known for the others.
    pub(crate) tensors: Vec<PlannedTensor>,
}

#[derive(Debug)]
pub(crate) struct PlannedTensor {
    pub(crate) dtype: Dtype,
    pub(crate) id: Option<TensorId>,
    pub(crate) place: Option<Place>,
}

impl Piece {
    fn new(source: u64, len: u64, at: u64) -> Self {
        let kept = None;
        Self {
            source,
            len,
            at,
            kept,
        }
    }
}

impl Job {
    /// One object that is the `len` bytes of the file at `source`.
    pub(crate) fn single(kind: ObjectKind, source: u64, len: u64) -> Self {
        Self {
            kind,
            len,
            pieces: vec![Piece::new(source, len, 0)],
        }
    }

    /// Fills `buffer` with the object's bytes from `offset` on.
    pub(crate) fn read(
        &self,
        source: &Source,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let end = offset + buffer.len() as u64;
        if !matches!(self.pieces.as_slice(), [one] if one.len == self.len) {
            buffer.fill(0);
        }
        let first = self
            .pieces
            .partition_point(|piece| piece.at + piece.len <= offset);
        for piece in self
            .pieces
            .iter()
            .skip(first)
            .take_while(|piece| piece.at < end)
        {
            let from = piece.at.max(offset);
            let to = (piece.at + piece.len).min(end);
            let skip = from - piece.at;
            let target = buffer
                .get_mut((from - offset) as usize..(to - offset) as usize)
                .unwrap_or_default();
            match &piece.kept {
                None => source.read_at(target, piece.source + skip)?,
                Some(kept) => {
                    let begin = (kept.at + skip) as usize;
                    let part = kept.bytes.as_slice().get(begin..begin + target.len());
                    target.copy_from_slice(part.unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

/// The dtype as the store spells it.
fn dtype(tensor: &TensorInfo, source: &Source) -> Result<Dtype, LoadError> {
    let name = tensor.dtype.to_string();
    Dtype::from_name(&name).ok_or_else(|| LoadError::Dtype {
        path: source.path().to_owned(),
        tensor: tensor.name.clone(),
        dtype: name,
    })
}

impl Plan {
    /// One object per large tensor, and packs of small ones (LAYOUT.md 7).
    pub(crate) fn of_header(
        header: &Header,
        source: &Source,
        threads: usize,
    ) -> Result<Self, Failure> {
        let lengths: Vec<u64> = header.tensors.iter().map(TensorInfo::byte_len).collect();
        let mut threshold = small_tensor_threshold(&lengths, MAX_OBJECTS);
        loop {
            let small = SmallTensors::read(header, threshold, source, threads)?;
            let items: Vec<_> = small.list.iter().map(|tensor| tensor.item).collect();
            let packs = plan_packs(&items, threshold);
            let large = lengths.iter().filter(|&&len| len >= threshold).count();
            if large + packs.len() <= MAX_OBJECTS {
                let plan = Self::assemble(header, threshold, &small, packs, source)?;
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
        source: &Source,
    ) -> Result<Self, LoadError> {
        let mut plan = Self {
            jobs: Vec::new(),
            tensors: Vec::with_capacity(header.tensors.len()),
        };
        for tensor in &header.tensors {
            let len = tensor.byte_len();
            let place = (len >= threshold).then_some(Place {
                object: plan.jobs.len() as u32,
                offset: 0,
            });
            if place.is_some() {
                let start = header.data_start + tensor.begin;
                plan.jobs.push(Job::single(ObjectKind::Tensor, start, len));
            }
            let id = (len == 0).then(|| TensorId::of(b""));
            let dtype = dtype(tensor, source)?;
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
                planned.place = Some(Place { object, offset });
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
    pub(crate) fn one_per_tensor(header: &Header, source: &Source) -> Result<Self, LoadError> {
        let mut plan = Self {
            jobs: Vec::new(),
            tensors: Vec::new(),
        };
        for tensor in &header.tensors {
            let place = (tensor.byte_len() > 0).then_some(Place {
                object: plan.jobs.len() as u32,
                offset: 0,
            });
            if place.is_some() {
                let start = header.data_start + tensor.begin;
                let job = Job::single(ObjectKind::Tensor, start, tensor.byte_len());
                plan.jobs.push(job);
            }
            let (dtype, id) = (dtype(tensor, source)?, None);
            plan.tensors.push(PlannedTensor { dtype, id, place });
        }
        Ok(plan)
    }

    /// One object that is the whole file.
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
        let object = |place: &Place| objects.get(place.object as usize);
        let tensors = infos
            .into_iter()
            .zip(self.tensors)
            .map(|(info, planned)| {
                let own = || {
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
                    id: planned.id.or_else(own).unwrap_or(TensorId::of(b"")),
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

/// What a manifest says of the file as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileShape {
    pub(crate) kind: ManifestKind,
    pub(crate) size: u64,
    pub(crate) data_start: u64,
    pub(crate) header_digest: tetris_store_layout::Digest,
}

/// The jobs that make the objects of a manifest, in the order of its object table.
pub(crate) fn jobs_of_manifest(manifest: &Manifest) -> Vec<Job> {
    let mut jobs: Vec<Job> = manifest
        .objects
        .iter()
        .map(|entry| Job {
            kind: entry.kind,
            len: entry.object.len,
            pieces: Vec::new(),
        })
        .collect();
    if manifest.kind == ManifestKind::File {
        return vec![Job::single(ObjectKind::File, 0, manifest.source_size)];
    }
    for tensor in &manifest.tensors {
        let job = tensor
            .place
            .and_then(|place| Some((place, jobs.get_mut(place.object as usize)?)));
        if let Some((place, job)) = job {
            let source = manifest.data_start + tensor.source_offset;
            job.pieces
                .push(Piece::new(source, tensor.len, place.offset));
        }
    }
    for job in &mut jobs {
        job.pieces.sort_by_key(|piece| piece.at);
        // Two tensors may lie at one place if a foreign manifest says so; one of them is enough.
        let mut free = 0;
        job.pieces.retain(|piece| {
            let keep = piece.at >= free;
            free = free.max(piece.at + piece.len);
            keep
        });
    }
    jobs
}
