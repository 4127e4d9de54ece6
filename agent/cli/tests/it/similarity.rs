//! `similarity`.

use crate::site::{Site, run, tetris};
use tetris_test_support::models::write_model;

const ALL: f64 = 11_016_000.0;
const WITHOUT_HEAD: f64 = 10_616_000.0;

#[test]
fn theta_is_the_share_that_both_have() {
    let site = Site::new();
    let a = site.fixture.model("a.safetensors", 1);
    let b = site.dir().join("b.safetensors");
    write_model(&b, 1, Some(77));
    // Without a store the files are read.
    let mut command = tetris();
    command
        .args(["--store", "/nowhere", "similarity"])
        .args([&a, &b]);
    let json = run(command.args(["--format", "json"])).expect(0).json();
    let near = |value: &serde_json::Value, expected: f64| {
        (value.as_f64().unwrap() - expected).abs() < 1e-9
    };
    assert!(near(&json["theta_ab"], WITHOUT_HEAD / ALL), "{json}");
    assert!(near(&json["theta_ba"], WITHOUT_HEAD / ALL), "{json}");
    assert_eq!(json["common_bytes"], 10_616_000);
    assert_eq!(json["common_tensors"], 8);
    // By the digits of a manifest's id, and as text.
    let loaded = site.load(&a);
    let id = loaded["models"][0]["manifests"][0]["manifest"]
        .as_str()
        .unwrap();
    let text = site.run(&["similarity".as_ref(), id[..8].as_ref(), b.as_os_str()]);
    let text = text.expect(0).stdout;
    assert!(text.contains("theta(A, B)  0.9637"), "{text}");
    let object = site.fixture.store().objects().unwrap().objects[0]
        .object
        .id
        .to_string();
    let run = site.run(&["similarity", &object, id]).expect(4);
    assert!(
        run.stderr.contains("expected a model, found object"),
        "{run:?}"
    );
}
