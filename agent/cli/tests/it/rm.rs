//! `rm`.

use std::path::Path;

use serde_json::Value;

use crate::site::{Background, Site, run, tetris};
use tetris_test_support::models::{write_model, write_sharded};

/// The id of the first manifest of a loaded model.
fn id_of(loaded: &Value) -> String {
    let id = &loaded["models"][0]["manifests"][0]["manifest"];
    id.as_str().unwrap().to_owned()
}

fn rm(site: &Site, model: &Path) -> Value {
    site.json(&["rm".as_ref(), model.as_os_str()])
}

fn amount(report: &Value) -> (u64, u64, u64) {
    let of = |what: &str| report[what].as_u64().unwrap();
    (
        of("freed_objects"),
        of("held_objects"),
        of("shared_objects"),
    )
}

#[test]
fn a_model_goes_with_its_records_by_path_and_by_id() {
    for by_path in [true, false] {
        let site = Site::new();
        let path = site.fixture.model("m.safetensors", 1);
        let loaded = site.load(&path);
        let (id, objects) = (id_of(&loaded), loaded["models"][0]["objects"].clone());
        site.load(&site.fixture.model("other.safetensors", 2));
        let name = if by_path {
            path.as_path()
        } else {
            Path::new(&id[..8])
        };
        let planned = run(site.command(&["rm", "--dry-run"]).arg(name)).expect(0);
        assert!(planned.stdout.starts_with("would remove "), "{planned:?}");
        assert!(planned.stdout.contains("m.safetensors"), "{planned:?}");
        let report = rm(&site, name);
        assert_eq!(report["freed_objects"], objects);
        assert_eq!(report["models"][0]["id"], id);
        assert_eq!(report["models"][0]["removed"], true);
        // Manifest and identity.
        assert_eq!(report["freed_records"], 2);
        let stat = site.json(&["stat"]);
        assert_eq!(
            (&stat["manifests"], &stat["identities"]),
            (&1.into(), &1.into())
        );
        assert_eq!(stat["objects"], objects, "those of the other model");
        let again = site.run(&["rm".as_ref(), path.as_os_str()]).expect(4);
        assert!(again.stderr.contains("tetris ls"), "{again:?}");
    }
}

#[test]
fn held_objects_stay_and_their_holder_is_named() {
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    let mut holder = Background::start(site.command(&["load", "--hold"]).arg(&path));
    holder.line();
    let head = holder.line();
    assert!(head.contains("m.safetensors"), "{head}");
    let refused = run(site.command(&["rm", "--format", "json"]).arg(&path)).expect(1);
    assert!(refused.stderr.contains("in use"), "{refused:?}");
    let report = refused.json();
    let objects = site.json(&["stat"])["objects"].as_u64().unwrap();
    assert_eq!(amount(&report), (0, objects, 0));
    assert_eq!(report["models"][0]["removed"], false);
    let process = &report["processes"][0];
    assert_eq!(process["pid"], holder.child.id());
    assert_eq!(process["command"], "tetris");
    assert_eq!(process["objects"], objects);
    let text = run(site.command(&["rm"]).arg(&path)).expect(1).stdout;
    assert!(
        text.contains("HELD BY") && text.contains(&holder.child.id().to_string()),
        "{text}"
    );
    // `show` and `stat` name it as well.
    let shown = site.json(&["show".as_ref(), path.as_os_str()]);
    assert_eq!(
        shown["manifests"][0]["processes"][0]["pid"],
        holder.child.id()
    );
    let stat = site.run(&["stat"]).expect(0).stdout;
    assert!(stat.contains("HELD BY"), "{stat}");
    holder.signal(nix::sys::signal::Signal::SIGTERM);
    holder.finish();
    let report = rm(&site, &path);
    assert_eq!(amount(&report), (objects, 0, 0));
    assert_eq!(site.json(&["stat"])["processes"], serde_json::json!([]));
}

#[test]
fn objects_of_other_models_stay() {
    let site = Site::new();
    let (one, two) = (
        site.dir().join("one.safetensors"),
        site.dir().join("two.safetensors"),
    );
    write_model(&one, 1, None);
    write_model(&two, 1, Some(7));
    let first = id_of(&site.load(&one));
    site.load(&two);
    let report = rm(&site, &two);
    // Of the second model only the head is its own.
    assert_eq!(report["freed_objects"], 1);
    assert_eq!(report["shared_with"], serde_json::json!([first]));
    let before = site.json(&["verify"])["objects"].clone();
    assert_eq!(
        rm(&site, &one)["freed_objects"],
        before,
        "nothing shares them now"
    );
}

#[test]
fn both_of_two_models_free_what_they_share() {
    let site = Site::new();
    let (one, two) = (
        site.dir().join("one.safetensors"),
        site.dir().join("two.safetensors"),
    );
    write_model(&one, 1, None);
    write_model(&two, 1, Some(7));
    site.load(&one);
    site.load(&two);
    let report = site.json(&["rm".as_ref(), one.as_os_str(), two.as_os_str()]);
    assert_eq!(amount(&report).2, 0);
    assert_eq!(site.json(&["stat"])["objects"], 0);
}

#[test]
fn the_last_path_names_a_model_whose_file_has_gone() {
    let site = Site::new();
    let sharded = site.dir().join("sharded");
    write_sharded(&sharded);
    site.load(&sharded);
    let rows = site.json(&["ls", "--sort", "path"])["manifests"].clone();
    let paths: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["last_path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 2);
    assert!(
        paths[0].ends_with("sharded/model-00001-of-00002.safetensors"),
        "{paths:?}"
    );
    assert!(
        paths[1].ends_with("sharded/model-00002-of-00002.safetensors"),
        "{paths:?}"
    );
    assert_eq!(rows[0]["last_path_is_here"], true);
    std::fs::remove_dir_all(&sharded).unwrap();
    let report = rm(&site, &sharded);
    assert_eq!(report["models"].as_array().unwrap().len(), 2);
    assert_eq!(site.json(&["stat"])["objects"], 0);
    let left = std::fs::read_dir(site.store_dir().join("paths-v1")).unwrap();
    assert_eq!(left.count(), 0, "hints go with their manifests");
}

#[test]
fn one_path_of_two_models_needs_an_id() {
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    let first = id_of(&site.load(&path));
    write_model(&path, 2, None);
    let second = id_of(&site.load(&path));
    std::fs::remove_file(&path).unwrap();
    let run = site.run(&["rm".as_ref(), path.as_os_str()]).expect(1);
    assert!(
        run.stderr.contains(&first) && run.stderr.contains(&second),
        "{run:?}"
    );
    site.run(&["rm", &first]).expect(0);
    let report = rm(&site, &path);
    assert_eq!(report["models"][0]["id"], second);
}

#[test]
fn what_is_no_model_is_refused_and_nothing_goes() {
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    let loaded = site.load(&path);
    let object = site.json(&["ls", "--objects"])["objects"][0]["id"].clone();
    let run = site
        .run(&["rm", &id_of(&loaded)[..8], object.as_str().unwrap()])
        .expect(4);
    assert!(run.stderr.contains("expected a model"), "{run:?}");
    site.run(&["rm", "no/such/model"]).expect(4);
    site.run(&["rm", "0123456789ab"]).expect(1);
    assert_eq!(site.json(&["stat"])["manifests"], 1);
    let mut elsewhere = tetris();
    elsewhere.args(["--store", "/nowhere", "rm"]).arg(&path);
    super::site::run(&mut elsewhere).expect(3);
}

#[test]
fn models_that_pods_declare_warm_stay_without_force() {
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    site.load(&path);
    answer_that_all_is_warm(site.store_dir());
    let refused = site.run(&["rm".as_ref(), path.as_os_str()]).expect(1);
    assert!(refused.stderr.contains("declared warm"), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(site.json(&["stat"])["manifests"], 1);
    let report = site.json(&["rm".as_ref(), "--force".as_ref(), path.as_os_str()]);
    assert_eq!(report["models"][0]["removed"], true);
}

/// Serves one client as a daemon to which every model is declared warm.
fn answer_that_all_is_warm(store: &Path) {
    use std::io::{Read, Write};
    use tetris_wire::daemon::{Message, PROTOCOL};
    let listener = std::os::unix::net::UnixListener::bind(store.join("daemon")).unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
        let hello = Message::HelloAck {
            daemon: "test".to_owned(),
        };
        client.write_all(&PROTOCOL.preamble()).unwrap();
        client.write_all(&hello.encode()).unwrap();
        let mut head = [0; 5];
        while client.read_exact(&mut head).is_ok() {
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let mut payload = vec![0; len as usize];
            client.read_exact(&mut payload).unwrap();
            if let Ok(Message::AskWarm { .. }) = Message::decode(head[4], &payload) {
                let answer = Message::Warm { warm: true };
                client.write_all(&answer.encode()).unwrap();
            }
        }
    });
}
