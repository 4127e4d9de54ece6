//! `pull`: from a hub, with credentials, into small stores, and after a kill.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tetris_test_support::model_site::{COMMIT, Fault, ModelSite};
use tetris_test_support::models::{bytes, write_f32, write_sharded};

use crate::init::Mounted;
use crate::site::{Run, Site, eventually, run, tetris};

/// The repository of [`Hub`].
const REPO: &str = "org/m";

/// A hub with a sharded model, and a store.
struct Hub {
    site: Site,
    hub: ModelSite,
}

impl Hub {
    fn new() -> Self {
        let site = Site::new();
        let dir = site.dir().join("repo");
        write_sharded(&dir);
        std::fs::write(dir.join("config.json"), "{}").unwrap();
        std::fs::write(dir.join("pytorch_model.bin"), "weights").unwrap();
        std::fs::write(dir.join(".gitattributes"), "x").unwrap();
        let hub = ModelSite::new();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            hub.put_in_repo(REPO, &name, std::fs::read(path).unwrap());
        }
        Self { site, hub }
    }

    fn pull(&self) -> Command {
        let mut pull = self.site.command(&["pull", "hf://org/m"]);
        of_hub(&mut pull, &self.hub);
        pull
    }

    #[track_caller]
    fn pulled(&self) -> Value {
        let document = run(self.pull().args(["--format", "json"])).expect(0).json();
        document["sources"][0].clone()
    }
}

/// The command with this hub and nothing of the tester's.
pub fn of_hub(command: &mut Command, hub: &ModelSite) {
    for name in [
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "XDG_CACHE_HOME",
        "HTTP_PROXY",
        "http_proxy",
    ] {
        command.env_remove(name);
    }
    command.env("HF_ENDPOINT", hub.url());
    command.env("HF_HOME", "/nowhere");
}

#[test]
fn a_repository_is_pulled_and_then_known_by_its_digests() {
    let hub = Hub::new();
    let first = hub.pulled();
    assert_eq!(first["revision"], COMMIT);
    assert_eq!(
        first["left_out"],
        json!([".gitattributes", "pytorch_model.bin"])
    );
    let paths: Vec<_> = first["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["path"])
        .collect();
    let expected = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(paths, expected);
    hub.hub.take_asked();
    let again = hub.pulled();
    assert_eq!(again["bytes_fetched"], 0);
    assert_eq!(again["files"][0]["known_by"], "version");
    assert_eq!(again["files"][1]["known_by"], "sha256");
    // One request: the listing.
    assert_eq!(hub.hub.take_asked().len(), 1);
    let loaded = hub.site.load(&hub.site.dir().join("repo"));
    assert_eq!(loaded["models"][0]["bytes_new"], 0);
}

#[test]
fn the_table_names_files_and_messages_go_to_stderr() {
    let hub = Hub::new();
    let run = run(&mut hub.pull()).expect(0);
    assert!(run.stdout.starts_with("KNOWN BY"), "{run:?}");
    assert!(run.stderr.contains("left out: `.gitattributes`"), "{run:?}");
    assert!(run.stderr.contains(" requests and "), "{run:?}");
    let list = crate::site::run(hub.pull().args(["--list", "--include", "*.json"])).expect(0);
    let files: Vec<_> = list.stdout.lines().skip(1).collect();
    assert!(
        files.len() == 2 && files[0].ends_with(" config.json"),
        "{list:?}"
    );
    let list = crate::site::run(hub.pull().args(["--list", "--format", "json"])).expect(0);
    assert_eq!(
        list.json()["sources"][0]["files"].as_array().unwrap().len(),
        4
    );
}

#[test]
fn a_token_stays_with_its_host_and_out_of_every_message() {
    const TOKEN: &str = "hf_secretsecret";
    let hub = Hub::new();
    let store_of_hub = ModelSite::new();
    hub.hub.redirect_to(&store_of_hub);
    hub.hub.require_token(TOKEN);
    let refused = run(&mut hub.pull()).expect(1);
    assert!(refused.stderr.contains("set HF_TOKEN"), "{refused:?}");
    let mut pull = hub.pull();
    let pulled = run(pull.env("HF_TOKEN", TOKEN).args(["--log", "trace"])).expect(0);
    assert!(!pulled.stderr.contains(TOKEN), "{pulled:?}");
    let asked = hub.hub.take_asked();
    let authorized = format!("Bearer {TOKEN}");
    assert!(
        asked
            .iter()
            .any(|asked| asked.authorization.as_ref() == Some(&authorized))
    );
    let elsewhere = store_of_hub.take_asked();
    assert!(!elsewhere.is_empty());
    assert!(elsewhere.iter().all(|asked| asked.authorization.is_none()));
    // As `hf auth login` leaves it.
    let home = hub.site.dir().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("token"), format!("{TOKEN}\n")).unwrap();
    run(hub.pull().env("HF_HOME", &home)).expect(0);
}

#[test]
fn an_address_that_has_expired_is_asked_for_again() {
    let hub = Hub::new();
    let store_of_hub = ModelSite::new();
    hub.hub.redirect_to(&store_of_hub);
    // Each address that the hub leads to is good for one answer.
    let good = Arc::new(AtomicUsize::new(0));
    let led = Arc::clone(&good);
    hub.hub.misbehave(move |_, _| {
        led.store(1, Ordering::Relaxed);
        None
    });
    let is_spent = move || good.swap(0, Ordering::Relaxed) == 0;
    store_of_hub.misbehave(move |_, _| is_spent().then_some(Fault::Status(403, None)));
    // One connection: no other request uses up what was asked for.
    run(hub.pull().args(["--connections", "1", "--threads", "1"])).expect(0);
    let refetched = hub.hub.take_asked().len();
    assert!(refetched > 4, "{refetched}");
}

#[test]
fn a_model_that_was_not_uploaded_completely_is_refused_before_its_weights() {
    let site = Site::new();
    let hub = ModelSite::new();
    let index = r#"{"weight_map":{"a":"model-00001-of-00002.safetensors"}}"#;
    hub.put_in_repo(REPO, "model.safetensors.index.json", index);
    hub.put_in_repo(REPO, "model-00002-of-00002.safetensors", vec![0; 100_000]);
    let mut pull = site.command(&["pull", "hf://org/m"]);
    of_hub(&mut pull, &hub);
    let refused = run(&mut pull).expect(4);
    assert!(
        refused.stderr.contains("model-00001-of-00002.safetensors"),
        "{refused:?}"
    );
    assert!(hub.take_sent() < 1000);
}

#[test]
fn what_the_hub_promises_is_proved() {
    let hub = Hub::new();
    hub.hub.misbehave(|asked, _| {
        let is_weights = asked.path.ends_with("00001-of-00002.safetensors");
        // Behind the header, of some 200 bytes, are other bytes than the hub has the digest of.
        let is_tensor = asked.range.is_some_and(|(first, _)| first > 100);
        (is_weights && is_tensor).then_some(Fault::OtherBytes)
    });
    let refused = run(&mut hub.pull()).expect(4);
    assert!(refused.stderr.contains("expected SHA-256"), "{refused:?}");
    assert!(refused.stderr.contains("nothing is bound"), "{refused:?}");
    hub.hub.behave();
    assert_ne!(hub.pulled()["bytes_fetched"], 0);
    let loaded = hub.site.load(&hub.site.dir().join("repo"));
    assert_eq!(loaded["models"][0]["bytes_new"], 0);
}

#[test]
fn a_proxy_of_the_environment_is_asked() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let proxy = ModelSite::new();
    proxy.put("m.safetensors", std::fs::read(&model).unwrap());
    // A host that no one has: only the proxy can answer for it.
    let mut pull = site.command(&["pull", "http://models.invalid/files/m.safetensors"]);
    for name in [
        "HTTP_PROXY",
        "NO_PROXY",
        "no_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        pull.env_remove(name);
    }
    run(pull.env("http_proxy", proxy.url())).expect(0);
    assert!(
        proxy
            .take_asked()
            .iter()
            .all(|asked| asked.host == "models.invalid")
    );
    assert_eq!(site.load(&model)["models"][0]["bytes_new"], 0);
}

#[test]
fn a_repository_of_very_many_files_is_refused_by_its_listing() {
    let site = Site::new();
    let hub = ModelSite::new();
    for number in 0..=10_000 {
        hub.put_in_repo(REPO, &format!("{number}.json"), "{}");
    }
    let mut pull = site.command(&["pull", "hf://org/m"]);
    of_hub(&mut pull, &hub);
    let refused = run(&mut pull).expect(1);
    assert!(
        refused.stderr.contains("more than 10000 files"),
        "{refused:?}"
    );
    assert_eq!(hub.take_asked().len(), 1);
}

#[test]
fn a_source_without_tls_needs_no_authorities() {
    let site = Site::new();
    let server = ModelSite::new();
    server.put("notes.txt", "x");
    // As in an image of nothing but the program, which has no certificates.
    let mut pull = site.command(&["pull", &server.file_url("notes.txt")]);
    pull.env_remove("SSL_CERT_DIR");
    run(pull.env("SSL_CERT_FILE", "/nowhere")).expect(0);
    let mut pull = site.command(&["pull", "https://localhost:1/notes.txt"]);
    pull.env_remove("SSL_CERT_DIR");
    let refused = run(pull.env("SSL_CERT_FILE", "/nowhere")).expect(1);
    assert!(
        refused
            .stderr
            .contains("SSL_CERT_FILE: expected certificates"),
        "{refused:?}"
    );
}

#[test]
fn a_source_that_breaks_its_promise_does_not_take_it_from_others() {
    let hub = Hub::new();
    hub.pulled();
    let store = hub.site.fixture.store();
    let objects = store.objects().unwrap().objects;
    let weight = objects.iter().find(|entry| entry.object.len == 200_000);
    store.reclaim(&weight.unwrap().object).unwrap();
    hub.hub.misbehave(|asked, _| {
        let is_weights = asked.path.ends_with(".safetensors");
        let is_tensor = asked.range.is_some_and(|(first, _)| first > 0);
        (is_weights && is_tensor).then_some(Fault::OtherBytes)
    });
    let refused = run(&mut hub.pull()).expect(4);
    assert!(refused.stderr.contains("expected SHA-256"), "{refused:?}");
    // The digest was proved before, and the objects that are missing are fetched from an honest one.
    hub.hub.behave();
    let pulled = hub.pulled();
    let known: Vec<_> = pulled["files"].as_array().unwrap().iter().collect();
    assert!(
        known[1..3].iter().all(|file| file["known_by"] == "sha256"),
        "{pulled}"
    );
}

#[test]
fn unknown_sources_and_patterns_are_errors_of_usage() {
    let site = Site::new();
    for args in [
        ["pull", "ftp://host/x"],
        ["pull", "hf://a/b/c"],
        ["pull", "https://user:secret@host/x"],
    ] {
        let refused = site.run(&args).expect(2);
        assert!(!refused.stderr.contains("secret@"), "{refused:?}");
    }
    site.run(&["pull", "/tmp", "--include", "a[", "--list"])
        .expect(2);
    site.run(&["pull", "/tmp", "--limit-rate", "0"]).expect(2);
    let mut pull = tetris();
    pull.args(["--store", "/nowhere", "pull", "/tmp"]);
    run(&mut pull).expect(3);
}

#[test]
fn a_store_without_room_ends_the_pull_with_the_remedy() {
    let Some(small) = Mounted::new(&["--size", "4MiB"]) else {
        return;
    };
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut pull = tetris();
    pull.arg("--store").arg(&small.dir).arg("pull").arg(&model);
    let full = run(&mut pull).expect(1);
    assert!(full.stderr.contains("has no room for"), "{full:?}");
    assert!(full.stderr.contains("tetris gc"), "{full:?}");
    // What no model needs makes room for one that fits.
    let other = site.dir().join("small.safetensors");
    write_f32(&other, &[("w".to_owned(), bytes(5, 3_000_000))]);
    let mut pull = tetris();
    pull.arg("--store").arg(&small.dir).arg("pull").arg(&other);
    run(&mut pull).expect(0);
}

#[test]
fn a_pull_that_is_killed_goes_on_from_there() {
    let site = Site::new();
    let model = site.dir().join("m.safetensors");
    let tensors: Vec<_> = (0..6)
        .map(|index| (format!("t{index}"), bytes(index, 4 << 20)))
        .collect();
    write_f32(&model, &tensors);
    let server = ModelSite::new();
    server.put("m.safetensors", std::fs::read(&model).unwrap());
    // The last tensor comes when the first pull is gone.
    let last = 5 * (4 << 20);
    server.misbehave(move |asked, _| {
        let is_last = asked.range.is_some_and(|(first, _)| first > last);
        is_last.then_some(Fault::StopsAfter(1 << 20))
    });
    let url = server.file_url("m.safetensors");
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let mut pull = site.command(&["pull", &url]);
        let pull = pull.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = pull.spawn().unwrap();
        eventually("the other tensors are there", || objects(&site) == 5);
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        // The note about the last of them is written behind it.
        std::thread::sleep(Duration::from_millis(100));
        nix::sys::signal::kill(pid, signal).unwrap();
        let ended = Run::of(&child.wait_with_output().unwrap());
        assert_eq!(ended.signal, Some(signal as i32), "{ended:?}");
        if signal == Signal::SIGINT {
            assert!(ended.stderr.contains("stopped while pulling"), "{ended:?}");
        }
    }
    server.behave();
    server.take_sent();
    let report = site.json(&["pull", &url]);
    let file = &report["sources"][0]["files"][0];
    assert_eq!(
        (&file["objects"], &file["objects_new"]),
        (&json!(6), &json!(1))
    );
    let sent = server.take_sent();
    assert!(sent < 5 << 20, "{sent}");
    assert_eq!(site.load(&model)["models"][0]["bytes_new"], 0);
}

fn objects(site: &Site) -> usize {
    let dir: &Path = &site.fixture.store().objects_dir();
    std::fs::read_dir(dir).unwrap().count()
}
