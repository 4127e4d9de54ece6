//! `load` and `hash`.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::init::Mounted;
use crate::site::{Background, Site, eventually, run, tetris};
use tetris_test_support::models::write_sharded;

#[test]
fn load_reports_what_is_new_and_what_was_there() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let cold = &site.load(&model)["models"][0];
    assert_eq!(cold["recognized"], json!(["hashing"]));
    assert_eq!(cold["kind"], "safetensors");
    assert_eq!(cold["tensors"], 9);
    assert_eq!(cold["bytes_new"], cold["bytes_total"]);
    assert_eq!(cold["bytes_private"], 0);
    assert_eq!(cold["private_reason"], json!(null));
    let id = cold["manifests"][0]["manifest"].as_str().unwrap();
    assert_eq!(id.len(), 64);
    let warm = &site.load(&model)["models"][0];
    assert_eq!(warm["recognized"], json!(["stat"]));
    assert_eq!(warm["bytes_shared"], cold["bytes_new"]);
    assert_eq!(warm["bytes_read"], 0);
    let args = ["load", "--rehash", "--prefault", "--threads", "1"];
    let again = site.json(&[&args[..], &[model.to_str().unwrap()]].concat());
    assert_eq!(again["models"][0]["recognized"], json!(["hashing"]));
    assert_eq!(again["models"][0]["bytes_new"], 0);
}

#[test]
fn load_prints_a_row_per_model() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let sharded = site.dir().join("sharded");
    write_sharded(&sharded);
    let file = site.file("weights.gguf", 3);
    let args = [
        "load".as_ref(),
        model.as_os_str(),
        sharded.as_os_str(),
        file.as_os_str(),
    ];
    let text = site.run(&args).expect(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("KNOWN BY") && lines[0].ends_with("MODEL"),
        "{text}"
    );
    assert!(
        lines[1].contains("m.safetensors") && lines[1].contains("10.5 MiB"),
        "{text}"
    );
    assert!(
        lines[2].contains("sharded") && lines[2].contains("hashing"),
        "{text}"
    );
    assert!(lines[3].contains("weights.gguf"), "{text}");
    assert!(
        lines[4].contains("weights.gguf is ") && lines[4].contains("objects-v1"),
        "{text}"
    );
}

#[test]
fn files_are_kept_as_what_they_are_unless_told() {
    let site = Site::new();
    let unnamed = site.fixture.model("blob", 1);
    assert_eq!(site.load(&unnamed)["models"][0]["kind"], "safetensors");
    let file = site.file("weights.gguf", 3);
    assert_eq!(site.load(&file)["models"][0]["kind"], "file");
    let args = [
        "load".as_ref(),
        "--whole-file".as_ref(),
        unnamed.as_os_str(),
    ];
    let whole = &site.json(&args)["models"][0];
    assert_eq!(whole["kind"], "file");
    let stored = std::fs::read(whole["stored_path"].as_str().unwrap()).unwrap();
    assert_eq!(stored, std::fs::read(unnamed).unwrap());
}

#[test]
fn hold_keeps_the_references_until_it_is_told_to_end() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let site = Site::new();
        let model = site.fixture.model("m.safetensors", 1);
        let args = ["load".as_ref(), model.as_os_str(), "--hold".as_ref()];
        let mut hold = Background::start(site.command(&args).args(["--format", "json"]));
        let report: serde_json::Value = serde_json::from_str(&hold.line()).unwrap();
        let objects = &report["models"][0]["objects"];
        site.json_when(&["stat"], |stat| stat["referenced_objects"] == *objects);
        let gc = site.json(&["gc"]);
        assert_eq!(gc["freed_objects"], 0, "held");
        hold.signal(signal);
        assert_eq!(hold.child.wait().unwrap().code(), Some(0));
        eventually("released", || site.referenced() == 0);
        assert!(site.json(&["gc"])["freed_bytes"].as_u64().unwrap() > 10_000_000);
    }
}

#[test]
fn a_full_store_does_not_fail_a_load() {
    let site = Site::new();
    let Some(small) = Mounted::new(&["--size", "4MiB"]) else {
        return;
    };
    let model = site.fixture.model("m.safetensors", 1);
    let mut load = tetris();
    load.arg("--store").arg(&small.dir).arg("load").arg(&model);
    let text = run(&mut load).expect(0);
    assert!(text.stderr.contains("warning: not all of"), "{text:?}");
    let remedy = format!("sudo tetris init {} --size ", small.dir.display());
    assert!(text.stderr.contains(&remedy), "{text:?}");
    let json = run(load.args(["--format", "json"])).expect(0).json();
    let report = &json["models"][0];
    assert!(
        report["bytes_private"].as_u64().unwrap() >= 10_000_000,
        "{report}"
    );
    assert!(
        report["private_reason"]
            .as_str()
            .unwrap()
            .contains("No space"),
        "{report}"
    );
    // Held is what the store could take, and no private copy.
    let mut hold = Background::start(load.arg("--hold"));
    hold.line();
    let stat = || {
        let mut stat = tetris();
        stat.arg("--store")
            .arg(&small.dir)
            .args(["stat", "--format", "json"]);
        run(&mut stat).expect(0).json()
    };
    let expected = report["objects"].as_u64().unwrap();
    let referenced = stat()["referenced_objects"].as_u64().unwrap();
    assert!(
        referenced > 0 && referenced < expected,
        "{referenced} of {expected}"
    );
    hold.signal(Signal::SIGTERM);
    assert_eq!(hold.child.wait().unwrap().code(), Some(0));
    eventually("released", || stat()["referenced_objects"] == 0);
}

#[test]
fn a_checkpoint_of_torch_is_kept_with_a_warning() {
    let site = Site::new();
    let checkpoint = site.dir().join("pytorch_model.bin");
    let name = b"archive/data.pkl";
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(26, 0);
    bytes.extend([name.len() as u8, 0, 0, 0]);
    bytes.extend(name);
    bytes.resize(300_000, 7);
    std::fs::write(&checkpoint, bytes).unwrap();
    tetris_test_support::models::settle(&checkpoint);
    let text = site
        .run(&["load".as_ref(), checkpoint.as_os_str()])
        .expect(0);
    assert!(text.stdout.contains("pytorch_model.bin is "), "{text:?}");
    assert!(
        text.stderr.contains("torch.load never reads it"),
        "{text:?}"
    );
}

#[test]
fn a_pointer_of_git_lfs_is_no_model() {
    let site = Site::new();
    for name in ["model.safetensors", "model.gguf"] {
        let pointer = site.dir().join(name);
        let text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
        std::fs::write(&pointer, text).unwrap();
        let run = site.run(&["load".as_ref(), pointer.as_os_str()]).expect(4);
        assert!(run.stderr.contains("git lfs pull"), "{run:?}");
    }
}

#[test]
fn hash_writes_sidecars_that_load_goes_by() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let manifest = site.load(&model)["models"][0]["manifests"][0]["manifest"].clone();
    let args = ["hash".as_ref(), model.as_os_str()];
    let dry = site.json(&["hash".as_ref(), "--dry-run".as_ref(), model.as_os_str()]);
    let sidecar = site.dir().join("m.safetensors.tetris");
    assert!(!sidecar.exists());
    assert_eq!(dry["files"][0]["sidecar"], json!(null));
    // No store is needed.
    let hashed = run(tetris()
        .args(["--store", "/nowhere", "--format", "json"])
        .args(args));
    let hashed = hashed.expect(0).json();
    let file = &hashed["files"][0];
    assert_eq!(file["manifest"], manifest);
    assert_eq!(dry["files"][0]["manifest"], manifest);
    assert_eq!(file["tensors"], 9);
    assert_eq!(file["sidecar"], sidecar.to_str().unwrap());
    assert!(sidecar.exists());
    let text = site.run(&["hash".as_ref(), "--trust-store".as_ref(), model.as_os_str()]);
    assert!(
        text.expect(0)
            .stdout
            .contains(&manifest.as_str().unwrap()[..12])
    );
    // A copy of both is recognized by the sidecar.
    let copy = site.dir().join("copy.safetensors");
    assert!(
        std::process::Command::new("cp")
            .arg("-p")
            .arg(&model)
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    std::fs::copy(&sidecar, site.dir().join("copy.safetensors.tetris")).unwrap();
    assert_eq!(
        site.load(&copy)["models"][0]["recognized"],
        json!(["sidecar"])
    );
}
