//! `push`: sidecars at a source, and what they save another store.

use serde_json::{Value, json};
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::write_model;

use crate::pull::of_hub;
use crate::site::{Site, run};

/// A hub with a model and a fine-tune of it.
fn hub(site: &Site) -> ModelSite {
    let hub = ModelSite::new();
    for (repo, head) in [("org/base", None), ("org/tuned", Some(7))] {
        let path = site.dir().join("x.safetensors");
        write_model(&path, 1, head);
        hub.put_in_repo(repo, "model.safetensors", std::fs::read(&path).unwrap());
        hub.put_in_repo(repo, "config.json", "{}");
    }
    hub
}

#[track_caller]
fn report(site: &Site, hub: &ModelSite, args: &[&str]) -> Value {
    let mut command = site.command(args);
    of_hub(&mut command, hub);
    let report = run(command.args(["--format", "json"])).expect(0).json();
    report["sources"][0].clone()
}

#[test]
fn a_repository_gets_sidecars_that_save_other_nodes_the_base() {
    let site = Site::new();
    let hub = hub(&site);
    let pushed = report(&site, &hub, &["push", "hf://org/tuned"]);
    let sidecars = pushed["sidecars"].as_array().unwrap();
    assert_eq!(sidecars.len(), 1);
    assert_eq!(sidecars[0]["path"], "model.safetensors.tetris");
    assert_eq!(sidecars[0]["new"], true);
    let again = report(&site, &hub, &["push", "hf://org/tuned"]);
    assert_eq!(again["sidecars"][0]["new"], false);
    assert_eq!(again["sidecars"][0]["manifest"], sidecars[0]["manifest"]);

    let other = Site::new();
    report(&other, &hub, &["pull", "hf://org/base"]);
    let pulled = report(&other, &hub, &["pull", "hf://org/tuned"]);
    let file = &pulled["files"][1];
    assert_eq!(
        (&file["known_by"], &file["objects_new"]),
        (&json!("sidecar"), &json!(1))
    );
    assert!(
        pulled["bytes_fetched"].as_u64().unwrap() < 2_000_000,
        "{pulled}"
    );
    // The sidecar's word was proved by the digest: the next pull asks for the listing only.
    let known = report(&other, &hub, &["pull", "hf://org/tuned"]);
    assert_eq!(
        (&known["files"][1]["known_by"], &known["requests"]),
        (&json!("sha256"), &json!(1))
    );
}

#[test]
fn a_sidecar_that_lies_is_found_out_by_the_digest() {
    let site = Site::new();
    let hub = hub(&site);
    report(&site, &hub, &["push", "hf://org/base"]);
    report(&site, &hub, &["push", "hf://org/tuned"]);
    // The fine-tune's sidecar beside the base: header and length agree, and samples may.
    let repo = site.dir().join("lie");
    std::fs::create_dir(&repo).unwrap();
    write_model(&repo.join("model.safetensors"), 1, Some(7));
    site.json(&["hash".as_ref(), repo.join("model.safetensors").as_os_str()]);
    let lie = std::fs::read(repo.join("model.safetensors.tetris")).unwrap();
    hub.put_in_repo("org/base", "model.safetensors.tetris", lie);
    let other = Site::new();
    let pulled = report(&other, &hub, &["pull", "hf://org/base"]);
    assert_eq!(pulled["files"][1]["known_by"], "reading");
    let base = site.dir().join("base.safetensors");
    write_model(&base, 1, None);
    assert_eq!(other.load(&base)["models"][0]["bytes_new"], 0);
}

#[test]
fn a_push_needs_the_right_to_write() {
    let site = Site::new();
    let hub = hub(&site);
    hub.require_token("hf_secretsecret");
    let mut push = site.command(&["push", "hf://org/base"]);
    of_hub(&mut push, &hub);
    let refused = run(&mut push).expect(1);
    assert!(refused.stderr.contains("set HF_TOKEN"), "{refused:?}");
    for source in ["https://localhost/m.safetensors", "oci://localhost:1/a/b"] {
        let refused = site.run(&["push", source]).expect(2);
        assert!(refused.stderr.contains("tetris hash"), "{refused:?}");
    }
}

#[test]
fn a_folder_gets_the_sidecars_that_hash_would_write() {
    let site = Site::new();
    let dir = site.dir().join("repo");
    std::fs::create_dir(&dir).unwrap();
    let model = dir.join("model.safetensors");
    write_model(&model, 1, None);
    let text = site.run(&["push".as_ref(), dir.as_os_str()]).expect(0);
    assert!(
        text.stdout.contains("written") && text.stderr.contains(" fetched"),
        "{text:?}"
    );
    let pushed = std::fs::read(dir.join("model.safetensors.tetris")).unwrap();
    site.json(&["hash".as_ref(), model.as_os_str()]);
    assert_eq!(
        pushed,
        std::fs::read(dir.join("model.safetensors.tetris")).unwrap()
    );
    let text = site.run(&["push".as_ref(), dir.as_os_str()]).expect(0);
    assert!(text.stdout.contains("present"), "{text:?}");
    assert_eq!(
        std::fs::read_dir(&dir).unwrap().count(),
        2,
        "nothing else is left"
    );
    site.run(&[
        "push".as_ref(),
        dir.as_os_str(),
        "--include".as_ref(),
        "*.json".as_ref(),
    ])
    .expect(4);
}
