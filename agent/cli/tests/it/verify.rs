//! `verify`.

use std::fs;

use crate::site::{Site, eventually};

#[test]
fn a_flipped_bit_is_found_and_set_aside() {
    let site = Site::new();
    site.load(&site.fixture.model("m.safetensors", 1));
    let sound = site.run(&["verify"]).expect(0);
    assert!(sound.stdout.starts_with("sound:"), "{sound:?}");
    let object = site.fixture.store().objects().unwrap().objects[0].object;
    Site::damage(&site.fixture.store().object_path(&object));
    let id = object.id.to_string();
    for args in [
        &["verify"][..],
        &["verify", "--quick"],
        &["verify", &id[..16]],
    ] {
        let run = site.run(args).expect(5);
        assert!(
            run.stdout.contains(&format!("damaged object {id}")),
            "{run:?}"
        );
        assert!(run.stdout.contains("left in place"), "{run:?}");
        assert!(run.stderr.contains("--quarantine"), "{run:?}");
    }
    let run = site
        .run(&["verify", "--quarantine", "--format", "json"])
        .expect(5);
    let damaged = &run.json()["damaged"];
    assert_eq!(damaged.as_array().unwrap().len(), 1);
    assert_eq!(
        (&damaged[0]["id"], &damaged[0]["action"]),
        (&id.into(), &"quarantined".into())
    );
    assert_eq!(damaged[0]["holders"], 0);
    let stat = site.json(&["stat"]);
    assert_eq!(stat["quarantined"], 1);
    assert_eq!(
        site.json(&["verify"])["damaged"].as_array().unwrap().len(),
        0
    );
    // The next load publishes the object anew.
    let model = site.load(&site.dir().join("m.safetensors"));
    assert_eq!(model["models"][0]["bytes_new"], object.len);
}

#[test]
fn holders_of_a_damaged_object_are_told() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let loaded = site.fixture.agent.load(&model).unwrap();
    let object = loaded.objects().next().unwrap();
    let others = loaded.objects().count() - 1;
    Site::damage(&site.fixture.store().object_path(&object));
    eventually("its holder is counted", || {
        let run = site.run(&["verify", "--format", "json"]).expect(5);
        run.json()["damaged"][0]["holders"] == 1
    });
    let run = site.run(&["verify", "--quarantine"]).expect(5);
    let line = format!("  held by {} ", std::process::id());
    assert!(run.stdout.contains(&line), "{run:?}");
    assert!(run.stderr.contains("gc --quarantined"), "{run:?}");
    // From the quarantine the holder is found as well.
    let stat = site.json(&["stat"]);
    assert_eq!(
        (&stat["quarantined"], &stat["objects"]),
        (&1.into(), &others.into())
    );
    assert_eq!(stat["processes"][0]["pid"], std::process::id());
    let amount = |report: &serde_json::Value| {
        let of = |what: &str| report[what].as_u64().unwrap();
        (
            of("freed_objects"),
            of("referenced_objects"),
            of("kept_objects"),
        )
    };
    assert_eq!(amount(&site.json(&["gc", "--quarantined"])), (0, 1, 0));
    drop(loaded);
    let young = ["gc", "--quarantined", "--older-than", "1h"];
    assert_eq!(amount(&site.json(&young)), (0, 0, 1));
    let dry = site.json(&["gc", "--quarantined", "--dry-run"]);
    assert_eq!(amount(&dry), (1, 0, 0));
    assert!(dry["freed_bytes"].as_u64() >= Some(object.len));
    let listed = site.json(&["ls", "--quarantined"]);
    assert_eq!(listed["quarantined"][0]["id"], object.id.to_string());
    assert!(
        site.run(&["ls"])
            .expect(0)
            .stderr
            .contains("gc --quarantined")
    );
    let freed = site.json(&["gc", "--quarantined"]);
    assert_eq!(freed["freed_objects"], 1);
    assert_eq!(site.json(&["stat"])["quarantined"], 0);
    // The sound objects were not touched.
    assert_eq!(site.json(&["stat"])["objects"], others);
}

#[test]
fn a_manifest_stands_for_its_objects() {
    let site = Site::new();
    let loaded = site.load(&site.fixture.model("m.safetensors", 1));
    site.load(&site.fixture.model("other.safetensors", 2));
    let model = &loaded["models"][0];
    let id = model["manifests"][0]["manifest"].as_str().unwrap();
    assert_eq!(site.json(&["verify", id])["objects"], model["objects"]);
    site.run(&["verify", "00000000"]).expect(1);
}

#[test]
fn damaged_records_are_found_and_removed() {
    for (folder, kind) in [("manifests-v1", "manifest"), ("identities-v1", "identity")] {
        let site = Site::new();
        site.load(&site.fixture.model("m.safetensors", 1));
        let mut entries = fs::read_dir(site.store_dir().join(folder)).unwrap();
        let path = entries.next().unwrap().unwrap().path();
        Site::damage(&path);
        let run = site.run(&["verify", "--format", "json"]).expect(5);
        assert_eq!(run.json()["damaged"][0]["kind"], kind);
        let run = site
            .run(&["verify", "--quarantine", "--format", "json"])
            .expect(5);
        assert_eq!(run.json()["damaged"][0]["action"], "removed");
        assert!(!path.exists());
        site.run(&["verify"]).expect(0);
    }
}

#[test]
fn what_is_no_object_is_told_and_left_alone() {
    let site = Site::new();
    let stray = site.store_dir().join("objects-v1/stray");
    fs::write(&stray, b"?").unwrap();
    for verb in ["verify", "stat"] {
        let run = site.run(&[verb]).expect(0);
        assert!(run.stderr.contains("`stray`"), "{run:?}");
    }
    assert!(stray.exists());
}
