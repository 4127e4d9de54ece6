//! The memory behind a model file's objects: mappings of the store, and one private buffer.

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
    /// A part of the private buffer.
    Private(Range<usize>),
}

/// The objects of one file, in the order of its manifest.
#[derive(Debug, Default)]
pub(crate) struct Backings {
    objects: Vec<Backing>,
    /// Bytes that the store cannot hold, all in one piece: a mapping per object would use up the process's
    /// mappings, which may be why it is here.
    private: Option<PrivateBytes>,
}

impl Backings {
    pub(crate) fn new(objects: Vec<Backing>, private: Option<PrivateBytes>) -> Self {
        Self { objects, private }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The bytes of object `index`.
    pub(crate) fn object(&self, index: usize) -> Option<&[u8]> {
        match self.objects.get(index)? {
            Backing::Store { mapping, .. } => Some(mapping),
            Backing::Private(range) => self.private.as_ref()?.as_slice().get(range.clone()),
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
            Backing::Private(range) => {
                let private = self.private.as_mut()?.as_mut_slice();
                private.get_mut(range.clone())?
            }
        };
        object.get_mut(within(place, len))
    }

    /// The objects that are in the store.
    pub(crate) fn stored(&self) -> impl Iterator<Item = ObjectRef> {
        self.objects.iter().filter_map(|backing| match backing {
            Backing::Store { object, .. } => Some(*object),
            Backing::Private(_) => None,
        })
    }

    /// Length and origin of each object.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (u64, Origin)> {
        let len = |backing: &Backing| match backing {
            Backing::Store { mapping, .. } => mapping.len() as u64,
            Backing::Private(range) => range.len() as u64,
        };
        self.objects
            .iter()
            .map(move |backing| (len(backing), backing.origin()))
    }

    /// The memory of each object, and the offset of the object in it.
    pub(crate) fn into_regions(self) -> Vec<(Arc<Region>, usize)> {
        let private = self
            .private
            .map(|bytes| Arc::new(Region::of_private(bytes)));
        let region = |backing| match backing {
            Backing::Store {
                object,
                mapping,
                outcome,
            } => Some((Arc::new(Region::of_mapping(mapping, object, outcome)), 0)),
            Backing::Private(range) => Some((private.clone()?, range.start)),
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
    fn origin(&self) -> Origin {
        match self {
            Self::Store { outcome, .. } => (*outcome).into(),
            Self::Private(_) => Origin::Private,
        }
    }
}

fn within(place: TensorPlace, len: u64) -> Range<usize> {
    place.offset as usize..(place.offset + len) as usize
}
