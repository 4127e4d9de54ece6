//! The committed seeds of the target `layout_table`, and tables that take much memory for their length.

use tetris_store_layout::{Dtype, Layout, LayoutPlace, LayoutTensor, ObjectRef, TensorId};

/// Offset of the number of tensors in a table.
const TENSOR_COUNT: usize = 20;
/// Offset of the index of the object of the first tensor, whose entry follows one source and one object.
const FIRST_OBJECT: usize = 28 + 32 + 44 + 8;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let layout = layout();
    let table = layout.encode();
    let changed = |at: usize, byte: u8| {
        let mut table = table.clone();
        table[at] = byte;
        table
    };
    let twice = Layout {
        tensors: vec![layout.tensors[0].clone(), layout.tensors[0].clone()],
        ..layout.clone()
    };
    vec![
        ("valid-layout", table.clone()),
        ("valid-nothing", Layout::default().encode()),
        ("valid-sources", sources(40).encode()),
        ("valid-attributes", attributes(40).encode()),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-magic", changed(0, b'X')),
        ("hostile-version", changed(8, 9)),
        ("hostile-cut", table[..100].to_vec()),
        ("hostile-more", [table.as_slice(), b"x"].concat()),
        ("hostile-count", changed(TENSOR_COUNT + 3, 0xff)),
        ("hostile-object", changed(FIRST_OBJECT, 9)),
        ("hostile-same-name-twice", twice.encode()),
    ]
}

/// Valid tables of many entries, by what they have many of.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("sources", sources(100_000).encode()),
        ("tensors", tensors(50_000).encode()),
        ("attributes", attributes(4_000).encode()),
    ]
}

fn sources(number: u32) -> Layout {
    Layout {
        sources: (0..number)
            .map(|index| TensorId::of(&index.to_le_bytes()))
            .collect(),
        ..Layout::default()
    }
}

fn tensors(number: u32) -> Layout {
    let tensor = |index: u32| LayoutTensor {
        name: format!("{index:x}"),
        dtype: Dtype::BF16,
        shape: vec![0],
        strides: vec![1],
        place: None,
        alias: None,
    };
    Layout {
        tensors: (0..number).map(tensor).collect(),
        ..Layout::default()
    }
}

fn attributes(number: u32) -> Layout {
    Layout {
        attributes: (0..number)
            .map(|index| (format!("{index:x}"), Vec::new()))
            .collect(),
        ..Layout::default()
    }
}

/// Two tensors in one object, the second an alias of the first, and one without elements.
fn layout() -> Layout {
    let tensor = |name: &str, shape: &[u64], strides: &[u64], alias| LayoutTensor {
        name: name.to_owned(),
        dtype: Dtype::BF16,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        place: (!shape.contains(&0)).then_some(LayoutPlace {
            object: 0,
            offset: 16,
        }),
        alias,
    };
    Layout {
        sources: [TensorId::of(b"source")].into(),
        objects: vec![ObjectRef::of(&[3; 64])],
        tensors: vec![
            tensor("weight", &[4, 6], &[6, 1], None),
            tensor("transposed", &[6, 4], &[1, 6], Some(0)),
            tensor("none", &[0], &[1], None),
        ],
        attributes: [("kernel".to_owned(), b"\x01packed".to_vec())].into(),
    }
}
