//! Functions that share a base.

use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;

use crate::site::{Site, run};
use crate::taken::named;

/// Excess of the kernel's count in bytes: it counts whole pages and whole chunks.
const SLACK: f64 = (2 << 20) as f64;

fn value(measure: &Value, name: &str) -> f64 {
    let figure = named(&measure["figures"], name);
    figure["value"].as_f64().unwrap()
}

/// A figure as an integer.
fn count(measure: &Value, name: &str) -> u64 {
    value(measure, name) as u64
}

/// The functions themselves check their results, and that their adapters change them.
fn check(report: &Value) {
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "measured", "{measure}");
    let of = |name: &str| value(measure, name);
    assert_eq!(
        count(measure, "base"),
        report["model"]["bytes"].as_u64().unwrap()
    );
    let base = of("base");
    assert_eq!(count(measure, "context of a function"), 0);
    let adapter = of("a function more with an adapter, without its context");
    assert!(of("adapter") > 0.0 && adapter >= of("adapter"), "{measure}");
    assert!(adapter <= of("private memory with an adapter"), "{measure}");
    let head = of("a function more with a head, without its context");
    assert!(head >= of("head") && head < of("head") + SLACK, "{measure}");
    let alone = of("a function more with a base of its own, without its context");
    assert!(alone >= base + of("adapter"), "{measure}");
    for (what, shared) in [("an adapter", adapter), ("a head", head)] {
        let times = of(&format!("a base of its own over {what}"));
        assert!((times / (alone / shared) - 1.0).abs() < 1e-9, "{measure}");
    }
}

#[test]
fn a_function_more_takes_what_differs_and_no_base() {
    let site = Site::new();
    let report = run(site.small().args(["--only=family", "--json"]))
        .expect(0)
        .json();
    check(&report);
    let measure = &report["measures"][0];
    // Queries and values of 32 layers, with few enough bytes to be an adapter.
    assert_eq!(count(measure, "matrices that are adapted"), 64);
    assert_eq!(count(measure, "functions with an adapter"), 3);
    assert!(value(measure, "adapter") < value(measure, "base") / 8.0);
    assert!(value(measure, "a base of its own over an adapter") > 8.0);
    assert!(site.files().is_empty(), "{:?}", site.files());
}

/// Writes three matrices of F32, 6 MB each.
fn write_model(path: &Path) {
    let bytes = |seed: u32| -> Vec<u8> {
        let number = |at: u32| (at.wrapping_mul(seed) % 1000) as f32 / 1000.0 - 0.5;
        (0..1_500_000u32)
            .map(number)
            .flat_map(f32::to_le_bytes)
            .collect()
    };
    let (one, two, three) = (bytes(7), bytes(11), bytes(13));
    let view = |data| TensorView::new(Dtype::F32, vec![1500, 1000], data).unwrap();
    let tensors = [("a", view(&one)), ("b", view(&two)), ("c", view(&three))];
    serialize_to_file(tensors, None, path).unwrap();
}

#[test]
fn matrices_of_f32_without_known_names_are_all_adapted() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write_model(&path);
    let mut command = site.command();
    command.args([
        "--simulated",
        "--chunk-bytes=2M",
        "--processes=1",
        "--only=family",
        "--json",
    ]);
    let report = run(command.arg("--model").arg(&path)).expect(0).json();
    check(&report);
    let measure = &report["measures"][0];
    assert_eq!(count(measure, "matrices that are adapted"), 3);
    // There are at least two functions, even for one process.
    assert_eq!(count(measure, "functions with an adapter"), 2);
    assert_eq!(count(measure, "adapter"), 3 * (1500 + 1000) * 16 * 2);
}
