//! Finding a model file's manifest without reading the file (LAYOUT.md 3.3, 8).

use crate::codec::{Reader, Writer, checked_by_crc};
use crate::digest::{Digest, IdentityId, ManifestId};
use crate::error::{DecodeError, PublishError, StoreError};
use crate::file_identity::FileIdentity;
use crate::file_system::FileSystem;
use crate::folder::Folder;
use crate::manifest::ManifestKind;
use crate::store::Store;

const MAGIC: &[u8; 8] = b"TETRIDEN";
const RECORD_LEN: usize = 128;
const KEY_LEN: usize = 64;

/// By what a model file is recognized, and as what it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdentityKey {
    /// The same file can be kept as tensors and as a whole.
    pub kind: ManifestKind,
    /// The property that distinguishes it from other files.
    pub by: IdentityBy,
}

/// A property that tells a file from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentityBy {
    /// This very file was read before on this node.
    Stat {
        /// The file and its version.
        file: FileIdentity,
        /// The file system that it lies on.
        system: FileSystem,
    },
    /// SHA-256 and length of the content, as Hugging Face caches name it.
    Sha256 {
        /// The digest.
        digest: [u8; 32],
        /// Length in bytes.
        size: u64,
    },
    /// A file at a source of models, e.g. a bucket, in the version that the source names.
    Source {
        /// BLAKE3-256 of the file's address and version ([`Store::bind`] does not look into it).
        digest: [u8; 32],
        /// Length in bytes.
        size: u64,
    },
}

impl IdentityKey {
    fn encode(&self) -> (u32, [u8; KEY_LEN]) {
        let mut writer = Writer::default();
        let by = match &self.by {
            IdentityBy::Stat { file, system } => {
                writer.u32(system.magic);
                // `FileSystem` exists only for devices of 32 bits.
                writer.u32(file.dev as u32);
                writer.u64(system.id);
                writer.u64(system.instance);
                writer.u64(file.ino);
                writer.u64(file.size);
                writer.i64(file.mtime.0);
                writer.i64(file.ctime.0);
                // Less than a thousand million.
                writer.u32(file.mtime.1 as u32);
                writer.u32(file.ctime.1 as u32);
                5
            }
            IdentityBy::Sha256 { digest, size } => {
                writer.put(digest);
                writer.u64(*size);
                2
            }
            IdentityBy::Source { digest, size } => {
                writer.put(digest);
                writer.u64(*size);
                7
            }
        };
        let kind = match (self.kind, by) {
            (ManifestKind::Safetensors, by) => by,
            (ManifestKind::File, 5) => 6,
            (ManifestKind::File, 7) => 8,
            (ManifestKind::File, _) => 4,
        };
        let mut key = [0; KEY_LEN];
        for (to, from) in key.iter_mut().zip(writer.finish()) {
            *to = from;
        }
        (kind, key)
    }

    fn decode(kind: u32, key: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(key, "identity key");
        let by = match kind {
            5 | 6 => stat_of(&mut reader)?,
            2 | 4 => IdentityBy::Sha256 {
                digest: reader.array()?,
                size: reader.u64()?,
            },
            7 | 8 => IdentityBy::Source {
                digest: reader.array()?,
                size: reader.u64()?,
            },
            // Stat without the file system: it proves nothing.
            1 | 3 => return Err(DecodeError::Retired { found: kind }),
            other => return Err(DecodeError::field("identity kind", "2 or 4 to 8", other)),
        };
        reader.reserved(reader.remaining())?;
        let kind = if matches!(kind, 2 | 5 | 7) {
            ManifestKind::Safetensors
        } else {
            ManifestKind::File
        };
        Ok(Self { kind, by })
    }

    /// The name of this identity's record.
    pub fn id(&self) -> IdentityId {
        let (kind, key) = self.encode();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&kind.to_le_bytes());
        hasher.update(&key);
        IdentityId(Digest(*hasher.finalize().as_bytes()))
    }
}

fn stat_of(reader: &mut Reader<'_>) -> Result<IdentityBy, DecodeError> {
    let magic = reader.u32()?;
    let dev = u64::from(reader.u32()?);
    let system = FileSystem {
        magic,
        id: reader.u64()?,
        instance: reader.u64()?,
    };
    let (ino, size) = (reader.u64()?, reader.u64()?);
    let (modified, changed) = (reader.i64()?, reader.i64()?);
    let file = FileIdentity {
        dev,
        ino,
        size,
        mtime: (modified, i64::from(reader.u32()?)),
        ctime: (changed, i64::from(reader.u32()?)),
    };
    Ok(IdentityBy::Stat { file, system })
}

pub(crate) fn encode_record(key: &IdentityKey, manifest: ManifestId) -> Vec<u8> {
    let (kind, key) = key.encode();
    let mut writer = Writer::with_preamble(MAGIC, RECORD_LEN);
    writer.u32(kind);
    writer.put(&manifest.0.0);
    writer.put(&key);
    writer.zeros(12);
    writer.crc();
    debug_assert_eq!(writer.len(), RECORD_LEN);
    writer.finish()
}

pub(crate) fn decode_record(bytes: &[u8]) -> Result<(IdentityKey, ManifestId), DecodeError> {
    let mut reader = Reader::new(bytes, "identity record");
    reader.preamble(MAGIC)?;
    if bytes.len() != RECORD_LEN {
        let found = bytes.len();
        return Err(DecodeError::field("identity length", RECORD_LEN, found));
    }
    checked_by_crc(bytes, "identity record")?;
    let kind = reader.u32()?;
    let manifest = ManifestId(Digest(reader.array()?));
    let key = IdentityKey::decode(kind, reader.bytes(KEY_LEN)?)?;
    reader.reserved(12)?;
    Ok((key, manifest))
}

impl Store {
    /// Binds an identity to a manifest, in the place of an earlier binding.
    ///
    /// The caller answers for INV-10: it hashed every byte of the file, and the file did not change
    /// meanwhile.
    pub fn bind(&self, key: &IdentityKey, manifest: ManifestId) -> Result<(), PublishError> {
        let name = key.id().to_string();
        self.replace_record(Folder::Identities, &name, &encode_record(key, manifest))
    }

    /// The manifest that an identity is bound to.
    ///
    /// # Errors
    /// [`StoreError::Record`] when the record is damaged; the file must be hashed then.
    pub fn look_up(&self, key: &IdentityKey) -> Result<Option<ManifestId>, StoreError> {
        let name = key.id().to_string();
        let bytes = self.read_record(Folder::Identities, &name, RECORD_LEN as u64)?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        match decode_record(&bytes) {
            Ok((found, manifest)) if found == *key => Ok(Some(manifest)),
            Ok((found, _)) => Err(DecodeError::field(
                "identity key",
                format!("{key:?}"),
                format!("{found:?}"),
            )),
            Err(error) => Err(error),
        }
        .map_err(|source| StoreError::Record {
            path: self.path(Folder::Identities, &name),
            source,
        })
    }

    /// Removes a binding that proved wrong.
    pub fn unbind(&self, key: &IdentityKey) -> Result<bool, StoreError> {
        Ok(self.unlink_record(Folder::Identities, &key.id().to_string())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: IdentityKey = IdentityKey {
        kind: ManifestKind::Safetensors,
        by: IdentityBy::Stat {
            file: FileIdentity {
                dev: 1,
                ino: 2,
                size: 3,
                mtime: (4, 5),
                ctime: (-6, 7),
            },
            system: FileSystem {
                magic: 8,
                id: 9,
                instance: 10,
            },
        },
    };

    #[test]
    fn records_round_trip_and_notice_damage() {
        let sha = IdentityKey {
            kind: ManifestKind::File,
            by: IdentityBy::Sha256 {
                digest: [3; 32],
                size: 9,
            },
        };
        let source = IdentityKey {
            kind: ManifestKind::File,
            by: IdentityBy::Source {
                digest: [3; 32],
                size: 9,
            },
        };
        let manifest = ManifestId::of(b"m");
        let kinds = [ManifestKind::Safetensors, ManifestKind::File];
        let keys = [STAT, sha, source]
            .into_iter()
            .flat_map(|key| kinds.map(|kind| IdentityKey { kind, ..key }));
        for key in keys {
            let bytes = encode_record(&key, manifest);
            assert_eq!(decode_record(&bytes), Ok((key, manifest)));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_record(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_key_is_the_bytes_that_the_layout_says() {
        let (kind, key) = STAT.encode();
        let mut expected = Vec::new();
        expected.extend([8u32, 1].map(u32::to_le_bytes).concat());
        expected.extend([9u64, 10, 2, 3].map(u64::to_le_bytes).concat());
        expected.extend([4i64, -6].map(i64::to_le_bytes).concat());
        expected.extend([5u32, 7].map(u32::to_le_bytes).concat());
        assert_eq!((kind, key.as_slice()), (5, expected.as_slice()));
    }

    #[test]
    fn every_field_of_a_stat_identity_is_in_its_key() {
        let IdentityBy::Stat { file, system } = STAT.by else {
            unreachable!()
        };
        let changes: [fn(&mut FileIdentity, &mut FileSystem); 10] = [
            |file, _| file.dev += 1,
            |file, _| file.ino += 1,
            |file, _| file.size += 1,
            |file, _| file.mtime.0 += 1,
            |file, _| file.mtime.1 += 1,
            |file, _| file.ctime.0 += 1,
            |file, _| file.ctime.1 += 1,
            |_, system| system.magic += 1,
            |_, system| system.id += 1,
            |_, system| system.instance += 1,
        ];
        let mut ids = vec![STAT.id()];
        for change in changes {
            let (mut file, mut system) = (file, system);
            change(&mut file, &mut system);
            let by = IdentityBy::Stat { file, system };
            ids.push(IdentityKey { by, ..STAT }.id());
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), changes.len() + 1);
    }

    #[test]
    fn records_of_retired_kinds_are_refused() {
        for kind in [1u32, 3] {
            let mut bytes = encode_record(&STAT, ManifestId::of(b"m"));
            bytes[12..16].copy_from_slice(&kind.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..124]);
            bytes[124..].copy_from_slice(&crc.to_le_bytes());
            let refused = Err(DecodeError::Retired { found: kind });
            assert_eq!(decode_record(&bytes), refused);
        }
    }

    #[test]
    fn golden_keys_of_version_1() {
        let sha = IdentityKey {
            kind: ManifestKind::Safetensors,
            by: IdentityBy::Sha256 {
                digest: [3; 32],
                size: 9,
            },
        };
        let keys = [STAT.id(), sha.id()].map(|id| id.to_string());
        assert_eq!(
            keys,
            [
                "95cd38d2dc392dfb95fd24e2a1be871212af101fed6f3222526c5060dd927a7f",
                "4c946c85e464b71678bcd7aa3c5757276e486677e7a01c7a304397e4b99fe11c"
            ]
        );
    }
}
