//! `place`: a model's files where a server looks for them, as KServe's storage initializer puts them there.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tetris_test_support::models::write_model;

use crate::site::{Site, walk};

/// A store, a source, and an empty directory.
struct Server {
    site: Site,
    source: PathBuf,
    dir: PathBuf,
}

impl Server {
    fn new() -> Self {
        let site = Site::new();
        let source = site.model_folder();
        let dir = site.dir().join("mnt/models");
        Self { site, source, dir }
    }

    fn args(&self) -> [&str; 5] {
        let text = |path: &'_ Path| path.to_str().unwrap().to_owned().leak() as &str;
        [
            "place",
            text(&self.source),
            text(&self.dir),
            "--include",
            "*",
        ]
    }

    fn placed(&self) -> Value {
        let mut document = self.site.json(&self.args());
        document["models"][0].take()
    }
}

#[test]
fn files_are_those_of_the_source_and_their_tensors_those_of_the_store() {
    let server = Server::new();
    let placed = server.placed();
    let expected = walk(&server.source);
    let mut placed_files = walk(&server.dir);
    placed_files.retain(|path| path.extension().is_none_or(|end| end != "tetris"));
    assert_eq!(placed_files, expected);
    let mut total = 0;
    for name in &expected {
        let bytes = std::fs::read(server.source.join(name)).unwrap();
        assert!(
            std::fs::read(server.dir.join(name)).unwrap() == bytes,
            "{name:?}"
        );
        total += bytes.len();
    }
    assert_eq!(placed["files"], expected.len());
    assert_eq!(placed["bytes"], total);
    assert_eq!(placed["bytes_fetched"], total);
    let loaded = &server.site.load(&server.dir.join("model.safetensors"))["models"][0];
    assert_eq!(loaded["recognized"][0], "sidecar", "{loaded}");
    for none in ["bytes_new", "bytes_private", "bytes_read"] {
        assert_eq!(loaded[none], 0, "{none}: {loaded}");
    }
}

#[test]
fn what_is_there_stays_and_what_is_damaged_is_written_again() {
    let server = Server::new();
    server.placed();
    let [config, model] = ["config.json", "model.safetensors"].map(|name| server.dir.join(name));
    let expected = std::fs::read(&model).unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let (config_before, model_before) = (inode(&config), inode(&model));
    // As after a kill: a part of a file, and one that was cut.
    std::fs::write(server.dir.join(".tetris-unfinished"), "part").unwrap();
    std::fs::File::options()
        .write(true)
        .open(&model)
        .unwrap()
        .set_len(7)
        .unwrap();
    server.placed();
    assert_eq!(inode(&config), config_before);
    assert!(inode(&model) != model_before && std::fs::read(&model).unwrap() == expected);
    assert!(!server.dir.join(".tetris-unfinished").exists());
}

#[test]
fn several_models_come_in_pairs() {
    let server = Server::new();
    let [base, adapter] = ["base", "adapter"].map(|name| server.dir.join(name));
    let source = server.source.to_str().unwrap();
    let other = server.site.dir().join("other");
    std::fs::create_dir(&other).unwrap();
    write_model(&other.join("adapter.safetensors"), 2, None);
    let pairs = [
        source,
        base.to_str().unwrap(),
        other.to_str().unwrap(),
        adapter.to_str().unwrap(),
    ];
    let document = server.site.json(&[&["place"][..], &pairs[..]].concat());
    assert_eq!(document["models"].as_array().unwrap().len(), 2);
    assert!(base.join("config.json").exists() && adapter.join("adapter.safetensors").exists());
    let odd = server.site.run(&["place", source, "/a", source]).expect(2);
    assert!(odd.stderr.contains("expected a directory after"), "{odd:?}");
}

#[test]
fn errors_name_what_is_missing_and_leave_no_part_of_a_file() {
    let server = Server::new();
    // A directory is where a file belongs.
    std::fs::create_dir_all(server.dir.join("model.safetensors")).unwrap();
    let blocked = server.site.run(&server.args()).expect(1);
    assert!(blocked.stderr.contains("cannot write"), "{blocked:?}");
    assert!(!server.dir.join(".tetris-unfinished").exists());
    let dir = server.dir.to_str().unwrap();
    let shown = server.site.run(&["place", "tetris://llama", dir]).expect(1);
    assert!(
        shown.stderr.contains("label tetris.dev/inject"),
        "{shown:?}"
    );
    let unknown = server.site.run(&["place", "ftp://host/x", dir]).expect(2);
    assert!(
        unknown.stderr.contains("`ftp` is no kind of source"),
        "{unknown:?}"
    );
}
