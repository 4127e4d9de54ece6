//! The committed seeds of the manifest's fuzz target: small manifests, and the same ones damaged in
//! one place.
//!
//! A name that begins with `valid` must be accepted, one with `hostile` refused.

use tetris_store_layout::{
    Digest, Dtype, Manifest, ManifestKind, ManifestObject, ManifestTensor, ObjectKind, ObjectRef,
    TensorId, TensorPlace,
};

/// Name and content of every seed. `repaired` puts lengths and CRC of a damaged manifest right, so
/// that only the damage is wrong.
pub fn seeds(repaired: fn(&[u8]) -> Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let full = full().encode();
    let mut seeds = vec![
        (
            "valid-no-tensors",
            safetensors(Vec::new(), Vec::new()).encode(),
        ),
        ("valid-one-tensor", one().encode()),
        ("valid-whole-file", whole_file().encode()),
        ("valid-pack-scalar-empty-metadata", full.clone()),
        ("valid-every-dtype", every_dtype().encode()),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-cut-header", full[..100].to_vec()),
        ("hostile-cut-strings", full[..full.len() - 1].to_vec()),
        ("hostile-longer", [&full[..], b"x"].concat()),
        ("hostile-crc", changed(&full, 124, &[0xff], <[u8]>::to_vec)),
        ("hostile-magic", changed(&full, 0, b"X", <[u8]>::to_vec)),
        ("hostile-version", changed(&full, 8, &[2], <[u8]>::to_vec)),
    ];
    // Offsets of LAYOUT.md 3.2; the first object entry is at 128, the first tensor entry behind
    // both objects at 224
    for (name, at, bytes) in DAMAGE {
        seeds.push((name, changed(&full, *at, bytes, repaired)));
    }
    seeds
}

/// Name, offset in the manifest that [`full`] makes, bytes written there.
type Damage = (&'static str, usize, &'static [u8]);

const DAMAGE: &[Damage] = &[
    ("hostile-kind", 12, &[3]),
    ("hostile-object-count", 24, &[0xff, 0xff, 0xff, 0xff]),
    ("hostile-tensor-count", 28, &[0xff, 0xff, 0xff, 0xff]),
    ("hostile-metadata-count", 32, &[0xff, 0xff, 0xff, 0xff]),
    ("hostile-source-size", 40, &[0]),
    ("hostile-data-start", 48, &[0xff; 8]),
    ("hostile-dimension-count", 56, &[0xff; 8]),
    ("hostile-object-length", 128 + 32, &[0; 8]),
    ("hostile-object-kind", 128 + 44, &[9]),
    ("hostile-object-padding", 128 + 45, &[1]),
    ("hostile-source-offset", 224 + 32, &[1]),
    ("hostile-tensor-length", 224 + 40, &[0xff; 8]),
    ("hostile-place-offset", 224 + 48, &[0xff; 8]),
    ("hostile-object-index", 224 + 56, &[2]),
    ("hostile-name-length", 224 + 60, &[0xff, 0xff, 0xff, 0xff]),
    ("hostile-dtype", 224 + 64, &[0xff]),
    ("hostile-rank", 224 + 66, &[0xff, 0xff]),
    ("hostile-tensor-padding", 224 + 68, &[1]),
];

fn changed(manifest: &[u8], at: usize, with: &[u8], repaired: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = manifest.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    repaired(&bytes)
}

/// A manifest of `tensors` whose place in the file and header are made up.
fn safetensors(objects: Vec<ManifestObject>, mut tensors: Vec<ManifestTensor>) -> Manifest {
    let mut end = 0;
    for tensor in &mut tensors {
        tensor.source_offset = end;
        end += tensor.len;
    }
    let data_start = 64;
    Manifest {
        kind: ManifestKind::Safetensors,
        source_size: data_start + end,
        data_start,
        header_digest: Digest::of(b"header"),
        metadata: Vec::new(),
        objects,
        tensors,
    }
}

fn object(kind: ObjectKind, len: usize) -> ManifestObject {
    let object = ObjectRef::of(&vec![7; len]);
    ManifestObject { object, kind }
}

fn tensor(name: &str, dtype: Dtype, shape: &[u64], place: Option<(u32, u64)>) -> ManifestTensor {
    ManifestTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        id: TensorId::of(name.as_bytes()),
        len: shape.iter().product::<u64>() * dtype.bits() / 8,
        source_offset: 0,
        place: place.map(|(object, offset)| TensorPlace { object, offset }),
    }
}

fn one() -> Manifest {
    let objects = vec![object(ObjectKind::Tensor, 16)];
    safetensors(
        objects,
        vec![tensor("w", Dtype::F32, &[2, 2], Some((0, 0)))],
    )
}

/// Its own object, a pack of two with a gap, a scalar, a tensor without bytes, and metadata.
fn full() -> Manifest {
    let objects = vec![object(ObjectKind::Tensor, 64), object(ObjectKind::Pack, 72)];
    let tensors = vec![
        tensor("layer.weight", Dtype::BF16, &[8, 4], Some((0, 0))),
        tensor("layer.bias", Dtype::F32, &[2], Some((1, 64))),
        tensor("empty", Dtype::U8, &[0, 3], None),
        tensor("step", Dtype::I64, &[], Some((1, 0))),
    ];
    let mut manifest = safetensors(objects, tensors);
    manifest.metadata = vec![
        (String::new(), "x".to_owned()),
        ("format".to_owned(), "pt".to_owned()),
    ];
    manifest
}

fn every_dtype() -> Manifest {
    let mut offset = 0;
    let tensors = Dtype::ALL
        .iter()
        .map(|&dtype| {
            let tensor = tensor(dtype.name(), dtype, &[8], Some((0, offset)));
            offset += tensor.len;
            tensor
        })
        .collect();
    safetensors(vec![object(ObjectKind::Pack, offset as usize)], tensors)
}

fn whole_file() -> Manifest {
    let mut manifest = safetensors(vec![object(ObjectKind::File, 100)], Vec::new());
    manifest.kind = ManifestKind::File;
    manifest.source_size = 100;
    manifest.data_start = 0;
    manifest.header_digest = Digest::of(b"");
    manifest.metadata.clear();
    manifest
}
