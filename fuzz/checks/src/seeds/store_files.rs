//! The committed seeds of the target `store_files`: a file of each kind, and damaged files
//! in one place.

use std::fs;

use tetris_store_layout::{
    CreateOptions, DerivedKey, FileIdentity, FileSystem, IdentityBy, IdentityKey, ManifestId,
    ManifestKind, ObjectRef, Store, TensorId, TrustDomain,
};

use crate::store_files::{
    DERIVED, HEADER, IDENTITY, PATH_HINT, derived_record, repaired, with_crc,
};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (stat, sha256) = (identity(STAT), identity(SHA256));
    let of_domain = of(DERIVED, &derived(TrustDomain::User(1000)));
    let derived = of(DERIVED, &derived(TrustDomain::Owner));
    let header = of(HEADER, &header(1_700_000_000));
    vec![
        ("valid-header", header.clone()),
        ("valid-identity-by-stat", stat.clone()),
        ("valid-identity-by-digest", sha256),
        ("valid-derived", derived.clone()),
        ("valid-derived-of-domain", of_domain.clone()),
        (
            "hostile-derived-of-no-domain",
            changed_within(&of_domain, 13, 0x05),
        ),
        ("valid-path", of(PATH_HINT, b"4026531841:/models/a:b\n")),
        ("hostile-nothing", Vec::new()),
        ("hostile-header-of-no-bytes", of(HEADER, b"")),
        ("hostile-header-cut", header[..40].to_vec()),
        (
            "hostile-header-of-a-time-that-cannot-be",
            of(HEADER, &self::header(u64::MAX)),
        ),
        ("hostile-header-version", changed(&header, 9, 2)),
        ("hostile-header-crc", changed(&header, 64, 0xff)),
        ("hostile-identity-kind", changed_within(&stat, 13, 9)),
        ("hostile-identity-retired", changed_within(&stat, 13, 1)),
        ("hostile-identity-padding", changed_within(&stat, 120, 1)),
        ("hostile-identity-cut", repaired(&stat[..100])),
        (
            "hostile-derived-name-length",
            changed_within(&derived, 93, 0xff),
        ),
        (
            "hostile-derived-not-utf8",
            changed_within(&derived, 97, 0xff),
        ),
        ("hostile-derived-cut", repaired(&derived[..60])),
        ("hostile-path-relative", of(PATH_HINT, b"7:models")),
        ("hostile-path-without-namespace", of(PATH_HINT, b"/models")),
    ]
}

const STAT: IdentityBy = IdentityBy::Stat {
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
};
const SHA256: IdentityBy = IdentityBy::Sha256 {
    digest: [3; 32],
    size: 9,
};

fn of(file: u8, bytes: &[u8]) -> Vec<u8> {
    [&[file], bytes].concat()
}

fn changed(seed: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut seed = seed.to_vec();
    seed[at] = byte;
    seed
}

/// A field changed, and the checksum right.
fn changed_within(seed: &[u8], at: usize, byte: u8) -> Vec<u8> {
    repaired(&changed(seed, at, byte))
}

fn header(created_s: u64) -> Vec<u8> {
    let fields = [
        b"TETRSTOR\x01\0\0\0\0\0\0\0".as_slice(),
        &[7; 16],
        &created_s.to_le_bytes(),
        &[0; 20],
    ];
    with_crc(fields.concat())
}

/// The record that a store writes for an identity.
fn identity(by: IdentityBy) -> Vec<u8> {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(folder.path(), &CreateOptions::default()).unwrap();
    let kind = ManifestKind::Safetensors;
    let key = IdentityKey { kind, by };
    store.bind(&key, ManifestId::of(b"manifest")).unwrap();
    let path = folder
        .path()
        .join("identities-v1")
        .join(key.id().to_string());
    of(IDENTITY, &fs::read(path).unwrap())
}

fn derived(domain: TrustDomain) -> Vec<u8> {
    let key = DerivedKey::new(TensorId::of(b"source"), "cast f32->bf16", 3).unwrap();
    derived_record(&key.in_domain(domain), &ObjectRef::of(b"result"))
}
