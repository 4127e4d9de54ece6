//! The memory behind a model file's objects: mappings of the store, and private buffers.

use std::ops::Range;
use std::sync::Arc;

use tetris_loader::PrivateBytes;
use tetris_store_layout::{Mapping, ObjectRef, PublishOutcome, TensorPlace};

use crate::detached::Region;
use crate::origin::Origin;

/// One object.
#[derive(Debug)]
pub(crate) enum Backing {
    Store {
        object: ObjectRef,
        mapping: Mapping,
        outcome: PublishOutcome,
    },
    /// A part of a private buffer.
    Private {
        /// Index of the buffer.
        buffer: usize,
        range: Range<usize>,
    },
}

/// The objects of one file, in the order of its manifest.
#[derive(Debug, Default)]
pub(crate) struct Backings {
    objects: Vec<Backing>,
    /// Bytes that the store cannot hold: in one piece, or one for each object of a file read once.
    /// The kernel joins neighboring ones to one mapping.
    private: Vec<PrivateBytes>,
}

impl Backings {
    pub(crate) fn new(objects: Vec<Backing>, private: Vec<PrivateBytes>) -> Self {
        Self { objects, private }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The bytes of object `index`.
    pub(crate) fn object(&self, index: usize) -> Option<&[u8]> {
        match self.objects.get(index)? {
            Backing::Store { mapping, .. } => Some(mapping),
            Backing::Private { buffer, range } => {
                self.private.get(*buffer)?.as_slice().get(range.clone())
            }
        }
    }

    /// The `len` bytes at `place`, and their origin.
    pub(crate) fn at(&self, place: TensorPlace, len: u64) -> Option<(&[u8], Origin)> {
        let index = place.object as usize;
        let bytes = self.object(index)?.get(within(place, len))?;
        Some((bytes, self.objects.get(index)?.origin()))
    }

    /// The `len` bytes at `place` for writing, unless they are mapped read-only.
    pub(crate) fn at_mut(&mut self, place: TensorPlace, len: u64) -> Option<&mut [u8]> {
        let object = match self.objects.get_mut(place.object as usize)? {
            Backing::Store { mapping, .. } => mapping.as_mut_slice()?,
            Backing::Private { buffer, range } => {
                let private = self.private.get_mut(*buffer)?.as_mut_slice();
                private.get_mut(range.clone())?
            }
        };
        object.get_mut(within(place, len))
    }

    /// The objects that are in the store.
    pub(crate) fn stored(&self) -> impl Iterator<Item = ObjectRef> {
        self.objects.iter().filter_map(|backing| match backing {
            Backing::Store { object, .. } => Some(*object),
            Backing::Private { .. } => None,
        })
    }

    /// Length and origin of each object.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (u64, Origin)> {
        let len = |backing: &Backing| match backing {
            Backing::Store { mapping, .. } => mapping.len() as u64,
            Backing::Private { range, .. } => range.len() as u64,
        };
        self.objects
            .iter()
            .map(move |backing| (len(backing), backing.origin()))
    }

    /// The memory of each object, and the offset of the object in it.
    pub(crate) fn into_regions(self) -> Vec<(Arc<Region>, usize)> {
        let private = self.private.into_iter();
        let private: Vec<_> = private
            .map(|bytes| Arc::new(Region::of_private(bytes)))
            .collect();
        let region = |backing| match backing {
            Backing::Store {
                object,
                mapping,
                outcome,
            } => Some((Arc::new(Region::of_mapping(mapping, object, outcome)), 0)),
            Backing::Private { buffer, range } => {
                Some((Arc::clone(private.get(buffer)?), range.start))
            }
        };
        self.objects.into_iter().filter_map(region).collect()
    }

    /// Fills the page tables.
    pub(crate) fn prefault(&self) {
        for backing in &self.objects {
            if let Backing::Store { mapping, .. } = backing {
                mapping.prefault();
            }
        }
    }
}

impl Backing {
    /// A whole buffer, with its index.
    pub(crate) fn of_buffer((buffer, bytes): (usize, &PrivateBytes)) -> Self {
        let range = 0..bytes.as_slice().len();
        Self::Private { buffer, range }
    }

    fn origin(&self) -> Origin {
        match self {
            Self::Store { outcome, .. } => (*outcome).into(),
            Self::Private { .. } => Origin::Private,
        }
    }
}

fn within(place: TensorPlace, len: u64) -> Range<usize> {
    place.offset as usize..(place.offset + len) as usize
}
