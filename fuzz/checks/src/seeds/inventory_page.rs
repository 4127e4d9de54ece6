//! The committed seeds of the target `inventory_page`, and pages that take much memory for their length.

use crate::inventory_page::{GZIP, PLAIN};

const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// A compressed page: [`page`] without a store, by gzip with its time left out.
const COMPRESSED: [u8; 62] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 75, 45, 42, 206, 204, 207, 83, 178, 50, 212, 81,
    202, 203, 79, 73, 85, 178, 82, 74, 84, 210, 81, 42, 46, 201, 47, 74, 45, 86, 178, 138, 142,
    213, 81, 74, 47, 40, 5, 179, 106, 1, 9, 65, 159, 116, 46, 0, 0, 0,
];

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let store = format!(
        r#"{{"name":"blue","id":"x","usable":true,"mount":0,"capacity_bytes":10,"free_bytes":1,"reclaimable_bytes":3,"objects":["{ID}"]}}"#
    );
    let gpu = format!(
        r#"{{"uuid":"GPU-1","type":"Tesla T4","usable":true,"total_bytes":100,"limit_bytes":60,"capacity_bytes":50,"held_bytes":30,"stores":[{{"name":"blue","objects":["{ID}"]}}]}}"#
    );
    let whole = page(&store, &gpu);
    let mut damaged = COMPRESSED;
    damaged[30] ^= 0x55;
    let mut seeds: Vec<_> = [
        ("valid-whole", whole.clone()),
        ("valid-empty", page("", "")),
        ("valid-no-node", whole.replacen(r#""node":"a","#, "", 1)),
        ("valid-unusable", whole.replace("true", "false")),
        ("hostile-version", whole.replacen(":1", ":2", 1)),
        (
            "hostile-node",
            whole.replacen(r#""node":"a""#, r#""node":"\u0007b""#, 1),
        ),
        (
            "hostile-long-node",
            whole.replacen(
                r#""node":"a""#,
                &format!(r#""node":"{}""#, "b".repeat(20_000)),
                1,
            ),
        ),
        ("hostile-object", whole.replace(ID, "7")),
        (
            "hostile-long-object",
            whole.replace(ID, &"\\n".repeat(20_000)),
        ),
        ("hostile-gpu-type", whole.replace("Tesla T4", "")),
        (
            "hostile-control-in-gpu",
            whole.replace("Tesla T4", "").replace("GPU-1", "\\u001b[2J"),
        ),
        ("hostile-negative", whole.replace(":10", ":-10")),
        ("hostile-gpus", page("", &vec![gpu.as_str(); 65].join(","))),
        ("hostile-cut", whole[..whole.len() - 3].to_owned()),
        ("hostile-nested", "[".repeat(10_000)),
    ]
    .map(|(name, text)| (name, of(PLAIN, text.as_bytes())))
    .into();
    seeds.extend([
        ("valid-compressed", of(GZIP, &COMPRESSED)),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-compressed-cut", of(GZIP, &COMPRESSED[..40])),
        ("hostile-compressed-damaged", of(GZIP, &damaged)),
        ("hostile-not-compressed", of(GZIP, page("", "").as_bytes())),
    ]);
    seeds
}

/// Pages of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let list = |entry: &str, number: usize| vec![entry; number].join(",");
    let objects = list(&format!("\"{ID}\""), 20_000);
    let roomy = (0..20_000).map(|at| {
        format!(r#"{{"name":"{at:x}","usable":true,"mount":{at},"capacity_bytes":1,"free_bytes":1,"objects":[]}}"#)
    });
    let gpu = r#"{"uuid":"","type":"","usable":false,"total_bytes":0,"limit_bytes":0,"capacity_bytes":0,"held_bytes":0}"#;
    let stores = list(r#"{"name":"","objects":[]}"#, 50_000);
    [
        (
            "stores",
            page(
                &list(r#"{"name":"","usable":true,"objects":[]}"#, 30_000),
                "",
            ),
        ),
        (
            "objects",
            page(
                &format!(r#"{{"name":"s","usable":true,"objects":[{objects}]}}"#),
                "",
            ),
        ),
        ("rooms", page(&roomy.collect::<Vec<_>>().join(","), "")),
        ("gpus", page("", &list(gpu, 10_000))),
        (
            "stores of a gpu",
            page("", &gpu.replace('}', &format!(r#","stores":[{stores}]}}"#))),
        ),
    ]
    .map(|(name, text)| (name, of(PLAIN, text.as_bytes())))
    .into()
}

fn of(form: u8, bytes: &[u8]) -> Vec<u8> {
    [&[form], bytes].concat()
}

fn page(stores: &str, gpus: &str) -> String {
    format!(r#"{{"version":1,"node":"a","stores":[{stores}],"gpus":[{gpus}]}}"#)
}
