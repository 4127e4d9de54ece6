//! The tensor store: the layout of a tmpfs directory, and the protocols that keep it true.
//!
//! `LAYOUT.md` in the repository's root is the contract. This crate implements it: it publishes,
//! maps, lists, verifies and reclaims content-addressed objects, and reads and writes the records
//! that describe models. It knows nothing of model formats, policies, daemons or Kubernetes.
//!
//! ```
//! # let dir = tempfile::tempdir_in("/dev/shm")?;
//! use tetris_store_layout::{Access, CreateOptions, Reclaimed, Store};
//!
//! let store = Store::create(dir.path(), &CreateOptions::default())?;
//! let published = store.publish(b"weights", Access::ReadOnly)?;
//! assert_eq!(&published.mapping[..], b"weights");
//!
//! // The mapping is the reference: while it lives, no one can reclaim the object.
//! assert_eq!(store.reclaim(&published.object)?, Reclaimed::Referenced);
//! let object = published.object;
//! drop(published.mapping);
//! assert_eq!(store.reclaim(&object)?, Reclaimed::Freed { bytes: 7 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod access;
mod catalog;
mod codec;
mod collect;
mod crash;
mod derived;
mod digest;
mod dtype;
mod error;
mod file_identity;
mod file_system;
mod folder;
mod hash;
mod header;
mod held;
mod holders;
mod identity;
mod interrupted;
mod last_path;
mod layout;
mod lock;
mod locked_object;
mod manifest;
mod map;
mod mapping;
mod mount_list;
mod object_file;
mod open_file;
mod pack;
mod pages;
mod publish;
mod quarantine;
mod reclaim;
mod record;
mod remains;
mod scan;
mod set_aside;
mod store;
mod sync;
mod trust;
mod unnamed_file;
mod usage;
mod verify;
mod version;

pub use access::Access;
pub use catalog::{Catalog, Refresh};
pub use collect::{KnownRecords, MAX_IDENTITIES};
pub use crash::{CRASH_AT, CRASH_COUNT_FILE};
pub use derived::{DeriveError, DerivedKey, DerivedRecord, MAX_TRANSFORM_NAME};
pub use digest::{DerivedId, Digest, IdentityId, ManifestId, ObjectId, ParseDigestError, TensorId};
pub use dtype::Dtype;
pub use error::{DecodeError, IoError, MapError, PublishError, StoreError};
pub use file_identity::FileIdentity;
pub use file_system::{FileSystem, FileSystemType};
pub use folder::TRUST_DOMAINS;
pub use hash::{SEGMENT_BYTES, SegmentDigest, SegmentHasher, combine, segment_count, segment_len};
pub use header::StoreId;
pub use holders::Holders;
pub use identity::{IdentityBy, IdentityKey};
pub use last_path::LastPath;
pub use layout::{
    Derivation, Layout, LayoutError, LayoutKey, LayoutPlace, LayoutTable, LayoutTensor,
    MAX_LAYOUT_ATTRIBUTES, MAX_LAYOUT_LEN, MAX_LAYOUT_RANK, MAX_LAYOUT_SOURCES, MAX_LAYOUT_TENSORS,
};
pub use lock::CreationLock;
pub use manifest::{
    MAX_OBJECTS, Manifest, ManifestKind, ManifestObject, ManifestTensor, ObjectKind, TensorPlace,
};
pub use mapping::{Mapping, cached_bytes};
pub use mount_list::{is_idmapped, is_idmapped_in, is_mounted_by_root, unescaped_path};
pub use open_file::{open_or_create_without_waiting, read_without_waiting};
pub use pack::{PACK_ALIGN, PackItem, PackPlan, SMALL_TENSOR, plan_packs, small_tensor_threshold};
pub use pages::{LARGE_PAGE, Pages, PagesOf, SmallPages};
pub use publish::{PublishOutcome, Published, SegmentWriter, Staging};
pub use reclaim::Reclaimed;
pub use remains::{Removed, StoreRemains};
pub use scan::{BoundIdentity, ForeignEntry, ObjectEntry, ObjectListing, RecordEntry};
pub use store::{
    CreateOptions, ObjectRef, RECLAIMER_READING, RECLAIMER_STATE, RECLAIMER_STATE_NEW, SOCKET_USER,
    Store,
};
pub use trust::{FIRST_POD_DOMAIN, LAST_POD_DOMAIN, TrustDomain};
pub use usage::{RecordUse, Usage};
pub use verify::{Fault, Verified, VerifyDepth};
pub use version::FORMAT_VERSION;
