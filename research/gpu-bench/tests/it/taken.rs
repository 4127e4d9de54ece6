//! Every measure gives its samples.

use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;

use crate::site::{Site, run};

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub fn named<'a>(all: &'a Value, name: &str) -> &'a Value {
    let matching = list(all).iter().find(|entry| entry["name"] == name);
    matching.unwrap_or_else(|| panic!("no `{name}` in {all}"))
}

/// Checks that a series has one sample or one for each round, and a median between its extremes.
fn check_series(measure: &Value, rounds: usize) {
    for series in list(&measure["series"]) {
        let samples: Vec<f64> = list(&series["samples"])
            .iter()
            .map(|entry| entry.as_f64().unwrap())
            .collect();
        assert!(
            matches!(samples.len(), 1) || samples.len() == rounds,
            "{series}"
        );
        assert!(samples.iter().all(|sample| *sample >= 0.0), "{series}");
        let of = |name: &str| series[name].as_f64().unwrap();
        assert!(
            of("min") <= of("median") && of("median") <= of("max"),
            "{series}"
        );
        assert!(
            ["seconds", "bytes", "bytes-per-second", "count", "ratio"]
                .contains(&series["unit"].as_str().unwrap())
        );
    }
}

#[test]
fn every_measure_gives_samples_and_leaves_nothing_behind() {
    let site = Site::new();
    let report = run(site.small().arg("--json")).expect(0).json();
    assert_eq!(report["schema"], "tetris-gpu-bench/1");
    assert_eq!(report["device"]["simulated"], true);
    assert_eq!(report["device"]["driver"], Value::Null);
    assert!(report["date"].as_str().unwrap().ends_with('Z'));
    assert!(report["machine"]["memory_bytes"].as_u64().unwrap() > 0);
    assert!(report["settings"]["group_bytes"].as_u64().unwrap() >= 64 << 10);
    assert!(report["model"]["bytes"].as_u64().unwrap() >= 16 << 20);
    assert!(
        report["notes"][0]
            .as_str()
            .unwrap()
            .contains("nothing of a GPU")
    );
    let measures = list(&report["measures"]);
    let names: Vec<_> = measures
        .iter()
        .map(|measure| measure["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names[..6],
        [
            "attach",
            "transfers",
            "load-file",
            "anchors",
            "processes",
            "eviction"
        ]
    );
    for measure in measures {
        if measure["name"] == "load-file" {
            assert_eq!(measure["outcome"], "skipped");
            assert!(measure["reason"].as_str().unwrap().contains("host memory"));
            continue;
        }
        assert_eq!(measure["outcome"], "measured", "{measure}");
        check_series(measure, 3);
        for figure in list(&measure["figures"]) {
            assert!(figure["value"].as_f64().unwrap().is_finite(), "{figure}");
            assert_eq!(
                figure["bar"]["met"],
                Value::Null,
                "the simulated device is not judged: {figure}"
            );
        }
    }
    assert!(site.files().is_empty(), "{:?}", site.files());
}

#[test]
fn bars_are_those_of_the_requirement() {
    let site = Site::new();
    let only = ["--only=attach,transfers,processes", "--json"];
    let report = run(site.small().args(only)).expect(0).json();
    let bar = |measure: &str, figure: &str| {
        let figures = &named(&report["measures"], measure)["figures"];
        named(figures, figure)["bar"].clone()
    };
    assert_eq!(bar("attach", "attach")["at_most"], 0.05);
    assert_eq!(
        bar("transfers", "store over pinned memory")["at_least"],
        0.95
    );
    assert_eq!(
        bar("processes", "without contexts, over one copy")["at_most"],
        1.02
    );
}

#[test]
fn processes_share_one_copy() {
    let site = Site::new();
    let report = run(site.small().args(["--only=processes", "--json"]))
        .expect(0)
        .json();
    let figures = &report["measures"][0]["figures"];
    let value = |name: &str| named(figures, name)["value"].as_f64().unwrap();
    let model = report["model"]["bytes"].as_f64().unwrap();
    assert_eq!((value("processes"), value("contexts alone")), (3.0, 0.0));
    assert!(value("with the model") >= model, "the model is there");
    assert!(value("with the model") < 2.0 * model, "and once: {figures}");
}

#[test]
fn transfers_copy_what_was_asked_for_and_pages_are_registered() {
    let site = Site::new();
    let report = run(site.small().args(["--only=transfers", "--json"]))
        .expect(0)
        .json();
    let measure = &report["measures"][0];
    let bytes = named(&measure["figures"], "size of a copy")["value"]
        .as_f64()
        .unwrap();
    assert!(
        (8e6..report["model"]["bytes"].as_f64().unwrap()).contains(&bytes),
        "{bytes}"
    );
    assert!(
        list(&measure["notes"]).is_empty(),
        "all of it is registered: {measure}"
    );
}

/// Measures without copies of the store's pages are taken once.
#[test]
fn each_store_has_the_measures_that_depend_on_its_pages() {
    let (site, other) = (Site::new(), Site::new());
    let mut command = site.small();
    command.arg("--store-dir").arg(other.path());
    let report = run(command.args(["--only=transfers,processes,eviction", "--json"]))
        .expect(0)
        .json();
    let places = [site.path(), other.path()].map(|path| path.to_str().unwrap());
    let stores: Vec<_> = list(&report["stores"])
        .iter()
        .map(|store| store["directory"].as_str().unwrap())
        .collect();
    assert_eq!(stores, places);
    for store in list(&report["stores"]) {
        let count = |name: &str| store[name].as_u64().unwrap();
        assert!(count("looked_at_bytes") > 0, "{store}");
        assert!(count("large_bytes") <= count("looked_at_bytes"), "{store}");
        assert!(store["pages"].as_str().unwrap().contains("iB"), "{store}");
    }
    let measures: Vec<_> = list(&report["measures"])
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap();
            (text("name"), text("store_dir"), text("outcome"))
        })
        .collect();
    assert_eq!(
        measures,
        [
            ("transfers", places[0], "measured"),
            ("processes", places[0], "measured"),
            ("eviction", places[0], "measured"),
            ("transfers", places[1], "measured"),
            ("eviction", places[1], "measured"),
        ]
    );
    assert!(site.files().is_empty() && other.files().is_empty());
}

#[test]
fn text_says_what_json_says() {
    let site = Site::new();
    let run = run(site.small().arg("--only=eviction,load-file")).expect(0);
    assert!(run.stdout.contains("SIMULATED: "), "{}", run.stdout);
    assert!(run.stdout.contains("\neviction: "), "{}", run.stdout);
    assert!(
        run.stdout.contains("evicted, copied and ready"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("skipped: the simulated device"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("attach: "), "{}", run.stdout);
    assert!(run.stderr.contains("measuring eviction"), "{}", run.stderr);
}

#[test]
fn a_model_may_be_small() {
    let site = Site::new();
    let mut command = site.command();
    command.args(["--simulated", "--bytes=2M", "--chunk-bytes=2M"]);
    let report = run(command.args(["--rounds=1", "--only=attach", "--json"]))
        .expect(0)
        .json();
    assert_eq!(report["measures"][0]["outcome"], "measured", "{report}");
}

pub fn write_model(path: &Path) {
    let bytes = |seed: u32| -> Vec<u8> {
        let words = (0..1_500_000u32).map(|at| at.wrapping_mul(2_654_435_761) ^ seed);
        words.flat_map(u32::to_le_bytes).collect()
    };
    let (one, other) = (bytes(1), bytes(2));
    let view = |data| TensorView::new(Dtype::F32, vec![1500, 1000], data).unwrap();
    let empty = TensorView::new(Dtype::F32, vec![0, 7], &[]).unwrap();
    let tensors = [
        ("a", view(&one)),
        ("b", view(&other)),
        ("tied", view(&one)),
        ("none", empty),
    ];
    serialize_to_file(tensors, None, path).unwrap();
}

#[test]
fn a_model_can_come_from_a_file() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write_model(&path);
    let mut command = site.command();
    command.args([
        "--simulated",
        "--chunk-bytes=2M",
        "--rounds=2",
        "--only=attach,eviction",
        "--json",
    ]);
    let report = run(command.arg("--model").arg(&path)).expect(0).json();
    assert_eq!(report["model"]["file"], path.to_str().unwrap());
    // Duplicates count once, and empty tensors are left out.
    assert_eq!(report["model"]["tensors"], 2);
    assert_eq!(report["model"]["bytes"], 12_000_000);
    assert_eq!(report["measures"][1]["outcome"], "measured", "{report}");
    assert!(site.files().is_empty());
}
