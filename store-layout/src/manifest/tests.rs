use proptest::prelude::*;

use super::*;
use crate::digest::ObjectId;
use crate::error::DecodeError;

fn sample() -> Manifest {
    let object = |seed: u8, len, kind| ManifestObject {
        object: ObjectRef {
            id: ObjectId(Digest([seed; 32])),
            crc: u32::from(seed),
            len,
        },
        kind,
    };
    let tensor = |name: &str, dtype, shape: &[u64], len, source_offset, place| ManifestTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        id: TensorId(Digest([len as u8; 32])),
        len,
        source_offset,
        place,
    };
    let at = |object, offset| Some(TensorPlace { object, offset });
    Manifest {
        kind: ManifestKind::Safetensors,
        source_size: 100 + 16 + 8,
        data_start: 100,
        header_digest: Digest([9; 32]),
        metadata: vec![("format".into(), "pt".into()), ("z".into(), String::new())],
        objects: vec![
            object(1, 16, ObjectKind::Tensor),
            object(2, 72, ObjectKind::Pack),
        ],
        tensors: vec![
            tensor("weight", Dtype::F32, &[2, 2], 16, 0, at(0, 0)),
            tensor("none", Dtype::F16, &[0, 3], 0, 16, None),
            tensor("scalar", Dtype::F32, &[], 4, 16, at(1, 0)),
            tensor("four", Dtype::F4, &[8], 4, 20, at(1, 64)),
        ],
    }
}

#[test]
fn golden_identity_of_version_1() {
    assert_eq!(
        sample().id().to_string(),
        "31997561cc7e4de11ab2ed70050162454d14422059eee18f606ae981e5d8d086"
    );
}

#[test]
fn encoding_round_trips() {
    let manifest = sample();
    assert_eq!(manifest.check(), Ok(()));
    let bytes = manifest.encode();
    assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(&manifest));
    for len in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..len]).is_err(), "length {len}");
    }
}

type Rule = (&'static str, fn(&mut Manifest));

#[test]
fn every_rule_on_entries_is_checked() {
    let rules: [Rule; 12] = [
        ("source offset", |m| m.tensors[2].source_offset += 1),
        ("source size", |m| m.source_size += 1),
        ("tensor length", |m| m.tensors[0].shape[0] = 3),
        ("dimensions", |m| m.tensors[3].shape[0] = u64::MAX),
        ("object index", |m| {
            m.tensors[0].place = Some(TensorPlace {
                object: 2,
                offset: 0,
            });
        }),
        ("place", |m| {
            m.tensors[3].place = Some(TensorPlace {
                object: 1,
                offset: 69,
            });
        }),
        ("place", |m| {
            m.tensors[3].place = Some(TensorPlace {
                object: 1,
                offset: u64::MAX,
            });
        }),
        ("place of an empty tensor", |m| {
            m.tensors[1].place = Some(TensorPlace {
                object: 1,
                offset: 0,
            });
        }),
        ("object of a tensor", |m| m.tensors[0].place = None),
        ("tensor name", |m| m.tensors[1].name = "weight".into()),
        ("metadata keys", |m| m.metadata.swap(0, 1)),
        ("whole file", |m| m.kind = ManifestKind::File),
    ];
    for (rule, breaking) in rules {
        let mut manifest = sample();
        breaking(&mut manifest);
        assert!(manifest.check().is_err(), "{rule} is not checked");
        assert!(Manifest::decode(&manifest.encode()).is_err(), "{rule}");
    }
}

#[test]
fn counts_beyond_their_caps_are_refused_before_anything_is_allocated() {
    let mut bytes = sample().encode();
    bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(
        Manifest::decode(&bytes),
        Err(DecodeError::field(
            "object count",
            "at most 16384",
            u32::MAX
        ))
    );
}

fn arbitrary_manifest() -> impl Strategy<Value = Manifest> {
    let tensor = (0..Dtype::ALL.len(), prop::collection::vec(0u64..5, 0..4));
    let metadata = prop::collection::btree_map(".{0,6}", ".{0,6}", 0..4);
    (prop::collection::vec(tensor, 0..20), metadata, 8u64..1000).prop_map(
        |(tensors, metadata, data_start)| {
            let mut manifest = Manifest {
                kind: ManifestKind::Safetensors,
                source_size: data_start,
                data_start,
                header_digest: Digest::of(&data_start.to_le_bytes()),
                metadata: metadata.into_iter().collect(),
                objects: Vec::new(),
                tensors: Vec::new(),
            };
            for (index, (dtype, mut shape)) in tensors.into_iter().enumerate() {
                // Four elements of any type fill whole bytes.
                shape.push(4);
                let dtype = Dtype::ALL[dtype];
                let len = dtype.tensor_bytes(&shape).unwrap();
                let place = (len > 0).then_some(TensorPlace {
                    object: manifest.objects.len() as u32,
                    offset: len,
                });
                if len > 0 {
                    manifest.objects.push(ManifestObject {
                        object: ObjectRef {
                            id: ObjectId(Digest([index as u8; 32])),
                            crc: index as u32,
                            len: len * 2,
                        },
                        kind: ObjectKind::Pack,
                    });
                }
                manifest.tensors.push(ManifestTensor {
                    name: format!("layer.{index}"),
                    dtype,
                    shape,
                    id: TensorId(Digest([index as u8; 32])),
                    len,
                    source_offset: manifest.source_size - data_start,
                    place,
                });
                manifest.source_size += len;
            }
            manifest
        },
    )
}

proptest! {
    #[test]
    fn any_manifest_round_trips(manifest in arbitrary_manifest()) {
        prop_assert_eq!(manifest.check(), Ok(()));
        prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn what_decodes_is_the_one_encoding(
        manifest in arbitrary_manifest(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = manifest.encode();
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(decoded) = Manifest::decode(&bytes) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Manifest::decode(&bytes);
    }
}
