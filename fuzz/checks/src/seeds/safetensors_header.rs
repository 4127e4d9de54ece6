//! The committed seeds of the header's fuzz target: small files by hand, each for one rule of the
//! format.
//!
//! A name that begins with `valid` must be accepted, one with `hostile` refused.

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds: Vec<(&'static str, Vec<u8>)> = VALID
        .iter()
        .chain(HOSTILE)
        .map(|&(name, json, data_len)| (name, file(json.as_bytes(), data_len)))
        .collect();
    seeds.extend([
        ("valid-every-dtype", every_dtype()),
        ("valid-nested-below-the-limit", nested(100)),
        ("hostile-nested", nested(200)),
        ("hostile-not-utf8", file(b"{\"\xff\":{}}", 0)),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-seven-bytes", vec![0; 7]),
        ("hostile-length-zero", vec![0; 8]),
        ("hostile-length-huge", vec![0xff; 16]),
        ("hostile-length-at-the-cap", framed(100_000_000, b"{}", 0)),
        ("hostile-length-beyond-file", framed(3, b"{}", 0)),
    ]);
    seeds
}

/// Name, JSON, bytes of data.
type Plain = (&'static str, &'static str, usize);

const VALID: &[Plain] = &[
    ("valid-no-tensors", "{}", 0),
    (
        "valid-one",
        r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#,
        16,
    ),
    (
        "valid-scalar",
        r#"{"w":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}"#,
        8,
    ),
    (
        "valid-empty-tensor",
        r#"{"w":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}"#,
        0,
    ),
    (
        "valid-metadata",
        r#"{"__metadata__":{"format":"pt","":"\u00e9"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
    ),
    ("valid-metadata-null", r#"{"__metadata__":null}"#, 0),
    (
        "valid-padded",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}   \n\t ",
        1,
    ),
    (
        "valid-two-out-of-order",
        r#"{"b":{"dtype":"BF16","shape":[2],"data_offsets":[3,7]},"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}}"#,
        7,
    ),
    (
        "valid-unknown-field",
        r#"{"w":{"x":[null,true,-1,1.5e3,"s",{"y":[]}],"data_offsets":[0,1],"shape":[1],"dtype":"BOOL"}}"#,
        1,
    ),
    (
        "valid-array-form",
        r#"{"w":["F64",[1],[0,8]],"v":[{"U8":null},[1],[8,9]]}"#,
        9,
    ),
    (
        "valid-zero-before-overflow",
        r#"{"w":{"dtype":"U8","shape":[0,9223372036854775808,4],"data_offsets":[0,0]}}"#,
        0,
    ),
    (
        "valid-escaped-name",
        r#"{"\u0077\ud83d\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
    ),
];

const HOSTILE: &[Plain] = &[
    ("hostile-not-a-map", "[]", 0),
    ("hostile-cut", r#"{"w":{"dtype":"F32","sha"#, 0),
    ("hostile-trailing-text", "{}{}", 0),
    (
        "hostile-trailing-data",
        r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        2,
    ),
    (
        "hostile-truncated-data",
        r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#,
        3,
    ),
    (
        "hostile-overlap",
        r#"{"a":["U8",[4],[0,4]],"b":["U8",[4],[3,7]]}"#,
        7,
    ),
    (
        "hostile-hole",
        r#"{"a":["U8",[4],[0,4]],"b":["U8",[4],[5,9]]}"#,
        9,
    ),
    ("hostile-first-not-at-zero", r#"{"a":["U8",[4],[1,5]]}"#, 5),
    (
        "hostile-reversed",
        r#"{"a":["U8",[4],[0,4]],"b":["U8",[4],[4,0]]}"#,
        4,
    ),
    (
        "hostile-duplicate",
        r#"{"w":["U8",[1],[0,1]],"\u0077":["U8",[1],[1,2]]}"#,
        2,
    ),
    (
        "hostile-duplicate-metadata",
        r#"{"__metadata__":{},"__metadata__":{"a":"b"}}"#,
        0,
    ),
    (
        "hostile-duplicate-key",
        r#"{"__metadata__":{"a":"b","a":"c"}}"#,
        0,
    ),
    (
        "hostile-duplicate-field",
        r#"{"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
    ),
    (
        "hostile-missing-field",
        r#"{"w":{"dtype":"U8","shape":[1]}}"#,
        1,
    ),
    ("hostile-metadata-number", r#"{"__metadata__":{"a":1}}"#, 0),
    ("valid-empty-name", r#"{"":["U8",[1],[0,1]]}"#, 1),
    ("valid-nul-in-name", r#"{"a\u0000b":["U8",[1],[0,1]]}"#, 1),
    ("hostile-unknown-dtype", r#"{"w":["F31",[1],[0,4]]}"#, 4),
    ("hostile-negative", r#"{"w":["U8",[-1],[0,1]]}"#, 1),
    ("hostile-float", r#"{"w":["U8",[1.0],[0,1]]}"#, 1),
    (
        "hostile-beyond-64-bits",
        r#"{"w":["U8",[1],[0,18446744073709551616]]}"#,
        1,
    ),
    (
        "hostile-product-overflow",
        r#"{"w":["U8",[4294967296,4294967296,0],[0,0]]}"#,
        0,
    ),
    (
        "hostile-bits-overflow",
        r#"{"w":["F32",[2305843009213693952],[0,0]]}"#,
        0,
    ),
    (
        "hostile-ranges-beyond-the-file",
        r#"{"a":["U8",[2305843009213693951],[0,2305843009213693951]],"b":["U8",[2305843009213693951],[2305843009213693951,4611686018427387902]]}"#,
        4,
    ),
    ("hostile-half-a-byte", r#"{"w":["F4",[3],[0,2]]}"#, 2),
    ("hostile-size", r#"{"w":["F32",[2],[0,4]]}"#, 4),
    (
        "hostile-lone-surrogate",
        r#"{"w":{"x":"\ud800","dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
    ),
    (
        "hostile-number-out-of-range",
        r#"{"w":{"x":1e999,"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
    ),
    (
        "hostile-rank",
        r#"{"w":["U8",[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],[0,1]]}"#,
        1,
    ),
];

/// Headers of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let of = |number: usize, entry: &dyn Fn(usize) -> String| {
        let entries: Vec<_> = (0..number).map(entry).collect();
        format!("{{{}}}", entries.join(","))
    };
    let tensor = |at| format!(r#""{at:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let array = |at| format!(r#""{at:x}":["U8",[0],[0,0]]"#);
    let dimensions = ["0"; 64].join(",");
    let ranked = |at| format!(r#""{at:x}":["U8",[{dimensions}],[0,0]]"#);
    let metadata = of(100_000, &|at| format!(r#""{at:x}":"""#));
    [
        ("tensors", of(20_000, &tensor)),
        ("tensors as arrays", of(40_000, &array)),
        ("dimensions", of(5_000, &ranked)),
        ("metadata", format!(r#"{{"__metadata__":{metadata}}}"#)),
    ]
    .map(|(name, json)| (name, file(json.as_bytes(), 0)))
    .into()
}

fn file(json: &[u8], data_len: usize) -> Vec<u8> {
    framed(json.len() as u64, json, data_len)
}

fn framed(length: u64, json: &[u8], data_len: usize) -> Vec<u8> {
    let mut file = length.to_le_bytes().to_vec();
    file.extend_from_slice(json);
    file.resize(file.len() + data_len, 0x2a);
    file
}

/// One tensor of eight elements for each dtype.
fn every_dtype() -> Vec<u8> {
    let dtypes = [
        ("BOOL", 8),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("C64", 64),
        ("F64", 64),
        ("I64", 64),
        ("U64", 64),
    ];
    let mut end = 0;
    let entries: Vec<String> = dtypes
        .iter()
        .map(|(dtype, bits)| {
            let begin = end;
            end += bits;
            format!(
                r#""{dtype}":{{"dtype":"{dtype}","shape":[2,4],"data_offsets":[{begin},{end}]}}"#
            )
        })
        .collect();
    file(format!("{{{}}}", entries.join(",")).as_bytes(), end)
}

/// A field that no one knows, with `depth` lists in one another.
fn nested(depth: usize) -> Vec<u8> {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let json =
        format!(r#"{{"w":{{"x":{open}{close},"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
    file(json.as_bytes(), 1)
}
