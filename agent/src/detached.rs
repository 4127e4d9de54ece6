//! A model's memory for foreign code, such as Python, which keeps tensors one by one, for any time,
//! and reads and writes them through addresses.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tetris_loader::{PRIVATE_ALIGN, PrivateBytes};
use tetris_store_layout::{Dtype, Mapping, ObjectRef, PublishOutcome, TensorId};

use crate::origin::Origin;

/// One piece of memory, an object's mapping or a private buffer, behind its address.
///
/// The value keeps the memory, and with it the reference to the object. Rust code has no slice of it any
/// more: foreign code may write to it at any time, where [`Region::is_writable`] allows.
#[derive(Debug)]
pub struct Region {
    /// Exposed (`std::ptr`), so that foreign pointers made of it are valid.
    address: NonZeroUsize,
    len: usize,
    writable: bool,
    origin: Origin,
    object: Option<ObjectRef>,
    /// Never read again; dropped with this value.
    _memory: Memory,
}

/// Owner of a region's memory.
#[derive(Debug)]
enum Memory {
    Store { _mapping: Mapping },
    Private { _bytes: PrivateBytes },
    Plain { _bytes: Vec<u8> },
}

/// Address of a region of no bytes: aligned and never read.
const NOWHERE: NonZeroUsize =
    NonZeroUsize::MIN.saturating_mul(NonZeroUsize::new(PRIVATE_ALIGN).unwrap());

impl Region {
    pub(crate) fn of_mapping(
        mut mapping: Mapping,
        object: ObjectRef,
        outcome: PublishOutcome,
    ) -> Self {
        let (address, writable) = match mapping.as_mut_slice() {
            Some(bytes) => (bytes.as_mut_ptr().expose_provenance(), true),
            None => (mapping.as_ptr().expose_provenance(), false),
        };
        Self {
            address: NonZeroUsize::new(address).unwrap_or(NOWHERE),
            len: mapping.len(),
            writable,
            origin: outcome.into(),
            object: Some(object),
            _memory: Memory::Store { _mapping: mapping },
        }
    }

    pub(crate) fn of_private(mut bytes: PrivateBytes) -> Self {
        let (address, len) = exposed(bytes.as_mut_slice());
        Self::private(address, len, Memory::Private { _bytes: bytes })
    }

    /// `len` zero bytes of private memory; `None` when there is no memory for them.
    pub fn zeroed(len: usize) -> Option<Self> {
        PrivateBytes::zeroed(len as u64).map(Self::of_private)
    }

    pub(crate) fn of_bytes(mut bytes: Vec<u8>) -> Self {
        let (address, len) = exposed(&mut bytes);
        Self::private(address, len, Memory::Plain { _bytes: bytes })
    }

    fn private(address: usize, len: usize, memory: Memory) -> Self {
        Self {
            address: NonZeroUsize::new(address).unwrap_or(NOWHERE),
            len,
            writable: true,
            origin: Origin::Private,
            object: None,
            _memory: memory,
        }
    }

    /// The address of the first byte.
    pub fn address(&self) -> NonZeroUsize {
        self.address
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for memory of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if writing is allowed. Otherwise a write ends the process with SIGSEGV.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Origin of the bytes.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The object that this memory maps.
    pub fn object(&self) -> Option<&ObjectRef> {
        self.object.as_ref()
    }
}

fn exposed(bytes: &mut [u8]) -> (usize, usize) {
    (bytes.as_mut_ptr().expose_provenance(), bytes.len())
}

/// A tensor that lives independently of the model it came from: it keeps its own object, and no other.
#[derive(Debug, Clone)]
pub struct DetachedTensor {
    /// The tensor's name.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Identity of the bytes as they were loaded; `None` when they were not hashed.
    pub id: Option<TensorId>,
    /// Origin of the bytes.
    pub origin: Origin,
    /// Length in bytes.
    pub len: usize,
    /// Offset of the bytes in `region`.
    pub offset: usize,
    /// The memory; `None` for a tensor without bytes.
    pub region: Option<Arc<Region>>,
}

impl DetachedTensor {
    /// The address of the first byte, a multiple of 64.
    pub fn address(&self) -> NonZeroUsize {
        let begin = self.region.as_ref().map(|region| region.address);
        begin
            .and_then(|begin| begin.checked_add(self.offset))
            .unwrap_or(NOWHERE)
    }

    /// Returns true if writing is allowed. A tensor without bytes can be written in full.
    pub fn is_writable(&self) -> bool {
        self.region.as_ref().is_none_or(|region| region.writable)
    }
}
