//! Products with a model that is still being copied.

use serde_json::Value;

use crate::site::{Site, run};
use crate::taken::{list, named, write_model};

fn samples(measure: &Value, name: &str) -> Vec<f64> {
    let samples = &named(&measure["series"], name)["samples"];
    let samples = list(samples).iter();
    samples.map(|sample| sample.as_f64().unwrap()).collect()
}

/// The measure itself checks every product against the store's bytes, and counts the copied bytes.
#[test]
fn each_way_of_waiting_gives_a_first_and_a_last_product() {
    let site = Site::new();
    let report = run(site.small().args(["--only=overlap", "--json"]))
        .expect(0)
        .json();
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "measured", "{measure}");
    for way in [
        "each matrix in its turn",
        "after all has arrived",
        "resident",
    ] {
        let first = samples(measure, &format!("first product, {way}"));
        let last = samples(measure, &format!("whole pass, {way}"));
        assert_eq!((first.len(), last.len()), (3, 3));
        let in_order = |(first, last): (&f64, &f64)| *first > 0.0 && first < last;
        assert!(first.iter().zip(&last).all(in_order), "{measure}");
    }
    // The way that waits for all products starts after the whole model has arrived.
    let arrived = samples(measure, "all has arrived");
    let first = samples(measure, "first product, after all has arrived");
    assert!(arrived.iter().zip(&first).all(|(all, sample)| all < sample));
    let value = |name: &str| named(&measure["figures"], name)["value"].as_f64().unwrap();
    let (model, first) = (
        value("size of the model"),
        value("size of the first matrix"),
    );
    assert!(0.0 < first && first < model, "{measure}");
    assert!(model < report["model"]["bytes"].as_f64().unwrap());
    assert!(site.files().is_empty(), "{:?}", site.files());
}

#[test]
fn a_model_with_too_few_matrices_is_not_measured() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write_model(&path);
    let mut command = site.command();
    command.args(["--simulated", "--rounds=1", "--only=overlap", "--json"]);
    let report = run(command.arg("--model").arg(&path)).expect(0).json();
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "skipped", "{measure}");
    let reason = measure["reason"].as_str().unwrap();
    assert!(reason.contains("less than two matrices"), "{reason}");
}
