//! Derived objects: what a transform makes of a tensor, computed once per node (LAYOUT.md 3.4).

use std::convert::Infallible;
use std::time::Duration;

use crate::access::Access;
use crate::codec::{Reader, Writer, checked_by_crc};
use crate::digest::{DerivedId, Digest, ObjectId, TensorId};
use crate::error::{DecodeError, MapError, PublishError, StoreError};
use crate::folder::Folder;
use crate::publish::{PublishOutcome, Published};
use crate::store::{ObjectRef, Store};
use crate::trust::TrustDomain;

/// Longest name of a transform, in bytes.
pub const MAX_TRANSFORM_NAME: usize = 4096;

const MAGIC: &[u8; 8] = b"TETRDERV";
/// Magic of records of a trust domain, which they name.
const DOMAIN_MAGIC: &[u8; 8] = b"TETRDERD";
const DOMAIN_LEN: usize = 4 + 4;
const FIXED_LEN: usize = 8 + 4 + 4 + 32 + 32 + 8 + 4 + 4 + 4;
const MAX_RECORD_LEN: u64 = (FIXED_LEN + DOMAIN_LEN + MAX_TRANSFORM_NAME) as u64;

/// The source of a derived object, the transform that makes it, and the domain whose word that is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DerivedKey {
    source: TensorId,
    transform: String,
    version: u32,
    domain: TrustDomain,
}

/// Reports which object a transform gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedRecord {
    /// The source and the transform.
    pub key: DerivedKey,
    /// The object that answers it.
    pub object: ObjectRef,
}

impl DerivedKey {
    /// The result of `transform` in its `version` on the tensor whose bytes are `source`.
    ///
    /// `transform` names the operation with its parameters, e.g. `cast f32->bf16`, and dtype and
    /// shape where they matter to it. Raise `version` when the implementation gives other bytes.
    ///
    /// # Errors
    /// When the name is longer than [`MAX_TRANSFORM_NAME`] bytes.
    pub fn new(
        source: TensorId,
        transform: impl Into<String>,
        version: u32,
    ) -> Result<Self, DecodeError> {
        let transform = transform.into();
        if transform.len() > MAX_TRANSFORM_NAME {
            let expected = format!("at most {MAX_TRANSFORM_NAME} bytes");
            return Err(DecodeError::field(
                "transform name",
                expected,
                transform.len(),
            ));
        }
        Ok(Self {
            source,
            transform,
            version,
            domain: TrustDomain::Owner,
        })
    }

    /// The same by the word of `domain`, whose records others do not find.
    #[must_use]
    pub fn in_domain(mut self, domain: TrustDomain) -> Self {
        self.domain = domain;
        self
    }

    /// The domain whose word the record is.
    pub fn domain(&self) -> TrustDomain {
        self.domain
    }

    /// Identity of the source tensor's bytes.
    pub fn source(&self) -> TensorId {
        self.source
    }

    /// Name of the transform with its parameters.
    pub fn transform(&self) -> &str {
        &self.transform
    }

    /// Version of the transform's implementation.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The name of this key's record.
    pub fn id(&self) -> DerivedId {
        let mut hasher = blake3::Hasher::new();
        match self.domain {
            TrustDomain::Owner => {
                hasher.update(b"tetris derived v1\0");
            }
            domain => {
                let (kind, number) = domain.code();
                hasher.update(b"tetris derived domain\0");
                hasher.update(&kind.to_le_bytes());
                hasher.update(&number.to_le_bytes());
            }
        }
        hasher.update(&self.source.0.0);
        hasher.update(&self.version.to_le_bytes());
        hasher.update(&(self.transform.len() as u32).to_le_bytes());
        hasher.update(self.transform.as_bytes());
        DerivedId(Digest(*hasher.finalize().as_bytes()))
    }
}

/// The reason that there is no derived object.
#[derive(Debug)]
pub enum DeriveError<E> {
    /// The transform failed.
    Make(E),
    /// The store did not take what the transform gave.
    Publish(PublishError, Vec<u8>),
}

impl DeriveError<Infallible> {
    /// The error and the bytes, where making them cannot fail.
    pub fn publish(self) -> (PublishError, Vec<u8>) {
        match self {
            Self::Make(never) => match never {},
            Self::Publish(error, bytes) => (error, bytes),
        }
    }
}

impl DerivedRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let len = FIXED_LEN + DOMAIN_LEN + self.key.transform.len();
        let mut writer = match self.key.domain {
            TrustDomain::Owner => Writer::with_preamble(MAGIC, len),
            domain => {
                let (kind, number) = domain.code();
                let mut writer = Writer::with_preamble(DOMAIN_MAGIC, len);
                writer.u32(kind);
                writer.u32(number);
                writer
            }
        };
        writer.u32(self.key.version);
        writer.put(&self.key.source.0.0);
        writer.put(&self.object.id.0.0);
        writer.u64(self.object.len);
        writer.u32(self.object.crc);
        writer.u32(self.key.transform.len() as u32);
        writer.put(self.key.transform.as_bytes());
        writer.crc();
        writer.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "derived record");
        let of_domain = bytes.starts_with(DOMAIN_MAGIC);
        reader.preamble(if of_domain { DOMAIN_MAGIC } else { MAGIC })?;
        checked_by_crc(bytes, "derived record")?;
        let domain = if of_domain {
            let (kind, number) = (reader.u32()?, reader.u32()?);
            let domain = TrustDomain::from_code(kind, number);
            // A record of the owner has the other form: there is one encoding.
            domain
                .filter(|domain| *domain != TrustDomain::Owner)
                .ok_or_else(|| {
                    let found = format!("kind {kind}, number {number}");
                    DecodeError::field("trust domain", "kind 1 or 2 with its number", found)
                })?
        } else {
            TrustDomain::Owner
        };
        let version = reader.u32()?;
        let source = TensorId(Digest(reader.array()?));
        let id = ObjectId(Digest(reader.array()?));
        let len = reader.u64()?;
        let crc = reader.u32()?;
        let name_len = reader.u32()? as usize;
        if name_len > MAX_TRANSFORM_NAME || reader.remaining() != name_len + 4 {
            let expected = format!("{} bytes", reader.remaining().saturating_sub(4));
            return Err(DecodeError::field("transform name", expected, name_len));
        }
        let transform = reader.text(name_len, "transform name")?.to_owned();
        Ok(Self {
            key: DerivedKey {
                source,
                transform,
                version,
                domain,
            },
            object: ObjectRef { id, crc, len },
        })
    }
}

impl Store {
    /// The object that `key` was derived to before, mapped; `None` when it is to be made.
    pub fn derived(&self, key: &DerivedKey, access: Access) -> Result<Option<Published>, MapError> {
        let name = key.id().to_string();
        let bytes = match self.read_record(Folder::Derived, &name, MAX_RECORD_LEN) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A damaged record is as good as none: the object is made again and the record replaced.
        let Some(record) = DerivedRecord::decode(&bytes)
            .ok()
            .filter(|record| record.key == *key)
        else {
            return Ok(None);
        };
        let mapping = self.map(&record.object, access)?;
        if mapping.is_some() {
            self.touch_record(Folder::Derived, &name);
        }
        Ok(mapping.map(|mapping| Published {
            object: record.object,
            outcome: PublishOutcome::Existing,
            mapping,
        }))
    }

    /// Maps what `key` derives to, making it with `make` if it is not in the store.
    ///
    /// Processes that ask at once wait up to `wait` for the first to finish. A transform that is not
    /// deterministic may give several objects; the last record wins and each caller gets bytes that
    /// some call of `make` returned. `make` runs at most once.
    ///
    /// # Errors
    /// [`DeriveError::Make`] is what `make` returned. [`DeriveError::Publish`] is as of
    /// [`Store::publish`], and has the made bytes, so that the caller can go on with private
    /// memory.
    pub fn get_or_create<E>(
        &self,
        key: &DerivedKey,
        access: Access,
        wait: Duration,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Published, DeriveError<E>> {
        if let Ok(Some(found)) = self.derived(key, access) {
            return Ok(found);
        }
        let _lock = self.creation_lock(&key.id().0, wait, || false);
        if let Ok(Some(found)) = self.derived(key, access) {
            return Ok(found);
        }
        let bytes = make().map_err(DeriveError::Make)?;
        self.publish_derived(key, access, &bytes)
            .map_err(|error| DeriveError::Publish(error, bytes))
    }

    fn publish_derived(
        &self,
        key: &DerivedKey,
        access: Access,
        bytes: &[u8],
    ) -> Result<Published, PublishError> {
        let published = self.publish(bytes, access)?;
        self.record_derived(key, published.object)?;
        Ok(published)
    }

    /// Records that `key` derives to `object`, which the caller has mapped. Takes the place of an
    /// earlier record.
    ///
    /// # Errors
    /// As of other records: the store is full or read-only.
    pub fn record_derived(&self, key: &DerivedKey, object: ObjectRef) -> Result<(), PublishError> {
        let record = DerivedRecord {
            key: key.clone(),
            object,
        };
        let name = key.id().to_string();
        self.replace_record(Folder::Derived, &name, &record.encode())
    }

    /// The record of `id`, if there is one.
    pub fn derived_record(&self, id: DerivedId) -> Result<Option<DerivedRecord>, StoreError> {
        let name = id.to_string();
        let Some(bytes) = self.read_record(Folder::Derived, &name, MAX_RECORD_LEN)? else {
            return Ok(None);
        };
        DerivedRecord::decode(&bytes)
            .map(Some)
            .map_err(|source| StoreError::Record {
                path: self.path(Folder::Derived, &name),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAINS: [TrustDomain; 4] = [
        TrustDomain::Owner,
        TrustDomain::User(1000),
        TrustDomain::User(0x7000_0000),
        TrustDomain::Pods(0x7000_0000),
    ];

    fn key(domain: TrustDomain) -> DerivedKey {
        let key = DerivedKey::new(TensorId::of(b"source"), "cast f32->bf16", 3);
        key.unwrap().in_domain(domain)
    }

    #[test]
    fn records_round_trip_and_notice_damage() {
        for domain in DOMAINS {
            let record = DerivedRecord {
                key: key(domain),
                object: ObjectRef::of(b"result"),
            };
            let bytes = record.encode();
            assert_eq!(DerivedRecord::decode(&bytes), Ok(record));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(DerivedRecord::decode(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_of_one_domain_is_found_in_no_other() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &crate::CreateOptions::default()).unwrap();
        let mut results = Vec::new();
        for (number, domain) in DOMAINS.into_iter().enumerate() {
            assert!(
                store
                    .derived(&key(domain), Access::ReadOnly)
                    .unwrap()
                    .is_none(),
                "{domain}"
            );
            let result = store
                .publish(&[number as u8; 100], Access::ReadOnly)
                .unwrap();
            store.record_derived(&key(domain), result.object).unwrap();
            results.push(result);
        }
        for (domain, result) in DOMAINS.into_iter().zip(&results) {
            let record = store.derived(&key(domain), Access::ReadOnly).unwrap();
            assert_eq!(record.unwrap().object, result.object, "{domain}");
        }
        // A record under another domain's name counts for no one.
        let [owner, user, ..] = DOMAINS.map(|domain| key(domain).id().to_string());
        let folder = dir.path().join("derived-v1");
        std::fs::remove_file(folder.join(&owner)).unwrap();
        std::fs::copy(folder.join(&user), folder.join(&owner)).unwrap();
        let of_owner = store.derived(&key(TrustDomain::Owner), Access::ReadOnly);
        assert!(of_owner.unwrap().is_none());
    }
}
