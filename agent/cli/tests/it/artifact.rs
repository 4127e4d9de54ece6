//! `push --to`: artifacts of a registry whose layers are tensors.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tetris_test_support::models::write_model;

use crate::registry::Registry;
use crate::site::{Run, Site, run, walk};

/// A registry with its login, and a command that uses it.
struct World {
    registry: Registry,
    docker: PathBuf,
}

impl World {
    fn start(work: &Path) -> Option<Self> {
        let registry = Registry::start(work)?;
        let docker = work.join("docker");
        std::fs::create_dir(&docker).unwrap();
        registry.log_in(&docker);
        Some(Self { registry, docker })
    }

    fn tag(&self, name: &str) -> String {
        format!("oci://{}/models/{name}", self.registry.address)
    }

    fn run(&self, site: &Site, args: &[&str]) -> Run {
        let mut command = site.command(args);
        command.args(["--format", "json"]);
        run(command.env("DOCKER_CONFIG", &self.docker))
    }

    #[track_caller]
    fn source(&self, site: &Site, args: &[&str]) -> Value {
        self.run(site, args).expect(0).json()["sources"][0].clone()
    }
}

/// A folder with a model.
fn model(site: &Site, name: &str, head: Option<u64>) -> PathBuf {
    let folder = site.dir().join(name);
    std::fs::create_dir_all(folder.join("tokenizer")).unwrap();
    write_model(&folder.join("model.safetensors"), 1, head);
    std::fs::write(folder.join("config.json"), "{}").unwrap();
    std::fs::write(folder.join("tokenizer/vocab.txt"), "a b").unwrap();
    std::fs::write(folder.join("nothing"), "").unwrap();
    folder
}

#[test]
fn tensors_are_layers_that_fine_tunes_share() {
    let site = Site::new();
    let Some(world) = World::start(site.dir()) else {
        return;
    };
    let (base, tuned) = (model(&site, "base", None), model(&site, "tuned", Some(7)));
    let size = std::fs::metadata(base.join("model.safetensors"))
        .unwrap()
        .len();
    let push = |folder: &Path, name: &str| {
        let folder = folder.to_str().unwrap();
        let pushed = world.source(&site, &["push", folder, "--to", &world.tag(name)]);
        pushed["artifact"].clone()
    };
    let first = push(&base, "m:base");
    assert!(first["bytes_sent"].as_u64().unwrap() > size, "{first}");
    assert_eq!(first["layers_new"], first["layers"]);
    assert_eq!(first["files"], 4);
    let again = push(&base, "m:base");
    assert_eq!(
        (&again["bytes_sent"], &again["layers_new"]),
        (&0.into(), &0.into())
    );
    assert_eq!(again["reference"], first["reference"]);
    let second = push(&tuned, "m:tuned");
    let sent = second["bytes_sent"].as_u64().unwrap();
    assert!(sent < size / 10, "{second}");
    let stored = walk(&site.dir().join("registry"));
    let stored: u64 = stored
        .iter()
        .map(|path| std::fs::metadata(path).map_or(0, |file| file.len()))
        .sum();
    assert!(stored < size + size / 5, "{stored} of {size}");

    // A node without anything gets all files, and knows the weights of any copy.
    let empty = Site::new();
    let pulled = world.source(&empty, &["pull", &world.tag("m:base")]);
    let files = pulled["files"].as_array().unwrap();
    let paths: Vec<_> = files
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    let expected = [
        "config.json",
        "model.safetensors",
        "nothing",
        "tokenizer/vocab.txt",
    ];
    assert_eq!(paths, expected);
    let loaded = empty.load(&base.join("model.safetensors"));
    assert_eq!(loaded["models"][0]["bytes_new"], 0, "{loaded}");
    let again = world.source(&empty, &["pull", &world.tag("m:base")]);
    assert_eq!(again["bytes_fetched"], 0, "{again}");
    // One with the base gets the tensor of the fine-tune.
    let pulled = world.source(&empty, &["pull", &world.tag("m:tuned")]);
    let weights = &pulled["files"][1];
    assert_eq!(
        (&weights["known_by"], &weights["objects_new"]),
        (&"sidecar".into(), &1.into())
    );
    let fetched = pulled["bytes_fetched"].as_u64().unwrap();
    assert!(fetched < 400_000 + 50_000, "{pulled}");
    let loaded = empty.load(&tuned.join("model.safetensors"));
    assert_eq!(loaded["models"][0]["bytes_new"], 0, "{loaded}");
}

#[test]
fn places_that_take_no_artifact_are_refused_before_the_model_is_pulled() {
    let site = Site::new();
    let Some(world) = World::start(site.dir()) else {
        return;
    };
    let folder = model(&site, "m", None);
    let folder = folder.to_str().unwrap();
    let refused = |to: &str, code| {
        let args = ["push", folder, "--to", to];
        world.run(&site, &args).expect(code).stderr
    };
    let digest = format!(
        "oci://{}/m@sha256:{}",
        world.registry.address,
        "0".repeat(64)
    );
    for to in ["hf://org/m", &digest] {
        assert!(refused(to, 1).contains("no place for an artifact"), "{to}");
    }
    let tag = world.tag("m:v1");
    let two = world.run(&site, &["push", folder, folder, "--to", &tag]);
    assert!(two.expect(2).stderr.contains("one source"));
    std::fs::remove_file(world.docker.join("config.json")).unwrap();
    assert!(refused(&tag, 1).contains("docker login"));
    let stored = site.json(&["stat"]);
    assert_eq!(stored["objects"], 0, "{stored}");
}
