use super::*;
use crate::{Access, CreateOptions};

fn tensor(name: &str, dtype: Dtype, shape: &[u64], object: u32, offset: u64) -> LayoutTensor {
    LayoutTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        strides: LayoutTensor::contiguous_strides(shape).unwrap(),
        place: Some(LayoutPlace { object, offset }),
        alias: None,
    }
}

fn layout() -> Layout {
    let transposed = LayoutTensor {
        strides: vec![1, 8],
        alias: Some(0),
        ..tensor("head.weight", Dtype::BF16, &[8, 4], 0, 0)
    };
    let empty = LayoutTensor {
        place: None,
        ..tensor("none", Dtype::F32, &[0, 3], 0, 0)
    };
    Layout {
        sources: [TensorId::of(b"1"), TensorId::of(b"2")].into(),
        objects: vec![ObjectRef::of(&[1; 64]), ObjectRef::of(&[2; 40])],
        tensors: vec![
            tensor("embedding", Dtype::BF16, &[4, 8], 0, 0),
            transposed,
            tensor("scale", Dtype::F32, &[], 1, 36),
            tensor("blocks", Dtype::F4, &[2, 6], 1, 3),
            empty,
        ],
        attributes: BTreeMap::from([
            ("kernel".to_owned(), b"\x00\xff".to_vec()),
            ("metadata".to_owned(), Vec::new()),
        ]),
    }
}

#[test]
fn a_layout_round_trips() {
    for layout in [layout(), Layout::default()] {
        assert_eq!(layout.check(), Ok(()));
        assert_eq!(Layout::decode(&layout.encode()), Ok(layout));
    }
}

#[test]
fn what_is_accepted_has_one_encoding() {
    let bytes = layout().encode();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = Layout::decode(&changed) {
            assert_eq!(other.encode(), changed, "bit {bit}");
            assert_ne!(other, layout(), "bit {bit}");
        }
    }
    for len in 0..bytes.len() {
        assert!(Layout::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Layout::decode(&[bytes, vec![0]].concat()).is_err());
}

/// A change that the check must name.
fn refused(change: impl FnOnce(&mut Layout), says: &str) {
    let mut changed = layout();
    change(&mut changed);
    let text = changed.check().unwrap_err().to_string();
    assert!(text.contains(says), "{text}");
    let decoded = Layout::decode(&changed.encode());
    assert_eq!(decoded.unwrap_err().to_string(), text);
}

#[test]
fn hostile_fields_are_refused() {
    refused(
        |layout| layout.tensors[2].name = "none".to_owned(),
        "tensor name",
    );
    refused(
        |layout| layout.tensors[2].place.as_mut().unwrap().offset = 37,
        "inside an object of 40 bytes",
    );
    refused(
        |layout| layout.tensors[2].place.as_mut().unwrap().offset = u64::MAX,
        "inside an object",
    );
    refused(
        |layout| layout.tensors[0].shape = vec![u64::MAX, 8],
        "below 2^64",
    );
    refused(
        |layout| layout.tensors[0].strides = vec![u64::MAX, 1],
        "below 2^64",
    );
    refused(
        |layout| layout.tensors[0].strides = vec![9, 1],
        "inside an object of 64 bytes",
    );
    refused(
        |layout| layout.tensors[3].strides = vec![7, 1],
        "contiguous",
    );
    refused(
        |layout| layout.tensors[4].shape = vec![1, 3],
        "object of a tensor",
    );
    refused(|layout| layout.tensors[1].alias = Some(1), "alias");
    refused(|layout| layout.tensors[2].alias = Some(0), "alias");
    refused(
        |layout| layout.tensors[2].place.as_mut().unwrap().object = 2,
        "object index",
    );
    refused(|layout| layout.tensors.swap(0, 2), "object index");
    refused(
        |layout| layout.objects.push(ObjectRef::of(b"no tensor")),
        "object count",
    );
    refused(
        |layout| layout.objects[1].id = layout.objects[0].id,
        "one twice",
    );
}

#[test]
fn each_dimension_has_a_stride() {
    let mut changed = layout();
    changed.tensors[3].shape = vec![2, 6, 1];
    let text = changed.check().unwrap_err().to_string();
    assert_eq!(text, "number of strides is 2, expected 3");
}

#[test]
fn counts_do_not_allocate() {
    let mut bytes = Layout::default().encode();
    bytes[20..24].copy_from_slice(&200_000u32.to_le_bytes());
    let text = Layout::decode(&bytes).unwrap_err().to_string();
    assert_eq!(text, "tensor count is 200000, expected at most 0");
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = Layout::decode(&bytes).unwrap_err().to_string();
    assert!(text.ends_with("expected at most 262144"), "{text}");
}

#[test]
fn keys_differ_in_all_that_the_result_depends_on() {
    let key = |transform: &str, version, sources: &[(&str, &[u8])], conditions: &[(&str, &str)]| {
        let mut key = LayoutKey::new(transform, version);
        for (name, bytes) in sources {
            key = key.with_source(*name, TensorId::of(bytes));
        }
        for (name, value) in conditions {
            key = key.with_condition(*name, *value);
        }
        key.derived_key().unwrap().id()
    };
    let sources: &[(&str, &[u8])] = &[("q", b"1"), ("k", b"2")];
    let swapped: &[(&str, &[u8])] = &[("q", b"2"), ("k", b"1")];
    let ids = [
        key("pack", 1, sources, &[("torch", "2.13")]),
        key("fuse", 1, sources, &[("torch", "2.13")]),
        key("pack", 2, sources, &[("torch", "2.13")]),
        key("pack", 1, swapped, &[("torch", "2.13")]),
        key("pack", 1, &sources[..1], &[("torch", "2.13")]),
        key("pack", 1, sources, &[("torch", "2.14")]),
        key(
            "pack",
            1,
            sources,
            &[("torch", "2.13"), ("place", "1 of 2")],
        ),
    ];
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    let reversed: Vec<_> = sources.iter().rev().copied().collect();
    assert_eq!(ids[0], key("pack", 1, &reversed, &[("torch", "2.13")]));
}

#[test]
fn ambiguous_conditions_are_refused() {
    let with = |name: &str, value: &str| {
        LayoutKey::new("pack", 1)
            .with_condition(name, value)
            .derived_key()
    };
    let plain = with("torch", "2.13").unwrap();
    assert_eq!(plain.transform(), "layout pack; torch=2.13");
    assert!(plain.is_layout());
    assert!(with("torch", "2.13; place=1").is_err());
    assert!(with("torch=2.13; place", "1").is_err());
    assert!(with("a=b", "c").is_err());
    assert!(with("torch", "2\n13").is_err());
    assert!(with("flags", &"x".repeat(5000)).is_err());
}

#[test]
fn parts_of_a_table_are_read_in_place() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    let mut layout = layout();
    layout.sources = (0..1_000u32)
        .map(|number| TensorId::of(&number.to_le_bytes()))
        .collect();
    let published = store.publish(&layout.encode(), Access::ReadOnly).unwrap();
    let table = store.layout_table(&published.object).unwrap().unwrap();
    assert_eq!(
        (table.source_count(), table.object_count()),
        (layout.sources.len(), layout.objects.len())
    );
    assert!(table.sources().eq(layout.sources.iter().copied()));
    assert!(table.objects().eq(layout.objects.iter().copied()));
    assert!(layout.sources.iter().all(|source| table.has_source(source)));
    assert!(!table.has_source(&TensorId::of(b"another")));

    let absent = ObjectRef::of(b"absent");
    assert!(store.layout_table(&absent).unwrap().is_none());
    for cut in [0, 7, HEADER_LEN, HEADER_LEN + SOURCE_LEN * 1_000] {
        let bytes = &layout.encode()[..cut];
        let cut = store.publish(bytes, Access::ReadOnly).unwrap();
        assert!(store.layout_table(&cut.object).is_err());
    }
}

#[test]
fn a_table_is_read_from_the_store_and_checked() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    let table = store.publish(&layout().encode(), Access::ReadOnly).unwrap();
    assert_eq!(store.layout(&table.object).unwrap(), Some(layout()));
    let other = store.publish(b"no layout", Access::ReadOnly).unwrap();
    assert!(matches!(
        store.layout(&other.object),
        Err(LayoutError::Invalid(_))
    ));
    let long = ObjectRef {
        len: MAX_LAYOUT_LEN + 1,
        ..table.object
    };
    assert!(matches!(store.layout(&long), Err(LayoutError::Invalid(_))));
    drop(table.mapping);
    let object = ObjectRef::of(&layout().encode());
    store.reclaim(&object).unwrap();
    assert_eq!(store.layout(&object).unwrap(), None);
}
