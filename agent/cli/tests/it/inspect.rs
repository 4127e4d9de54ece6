//! `ls`, `show` and `stat`.

use std::collections::HashMap;

use serde_json::{Value, json};
use tetris_agent::{Access, Dtype, LayoutKey, LayoutParts, LoadOptions, PlacedTensor, TensorId};

use crate::site::{Site, run, tetris};
use tetris_test_support::models::write_sharded;

#[test]
fn ls_lists_models_with_who_holds_them() {
    let site = Site::new();
    assert!(
        site.run(&["ls"]).expect(0).stdout.contains("tetris load"),
        "empty"
    );
    let model = site.fixture.model("m.safetensors", 1);
    let file = site.file("weights.gguf", 3);
    let loaded = site.load(&model);
    site.load(&file);
    let id = loaded["models"][0]["manifests"][0]["manifest"]
        .as_str()
        .unwrap();
    let _held = (
        site.fixture.agent.load(&model).unwrap(),
        site.fixture.agent.load(&model).unwrap(),
    );
    let rows_of = |list: &Value| list["manifests"].as_array().unwrap().clone();
    let list = site.json_when(&["ls"], |list| {
        let rows = rows_of(list);
        rows.iter()
            .any(|row| row["id"] == id && row["holders"] == 2)
    });
    let rows = rows_of(&list);
    assert_eq!(rows.len(), 2);
    let row = rows.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!(row["kind"], "safetensors");
    assert_eq!(row["bytes"], row["resident_bytes"]);
    let other = rows.iter().find(|row| row["id"] != id).unwrap();
    assert_eq!(
        (&other["kind"], &other["holders"]),
        (&"file".into(), &0.into())
    );
    assert_eq!(rows_of(&site.json(&["ls", "--manifests"])).len(), 2);
    let text = site.run(&["ls"]).expect(0).stdout;
    assert!(text.starts_with("MANIFEST"), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with(&id[..12]))
        .unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(&cells[1..5], ["safetensors", "9", "10.5", "MiB"], "{text}");
}

#[test]
fn ls_lists_objects_identities_and_derived_records() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let _held = site.fixture.agent.load(&model).unwrap();
    let objects = site.json_when(&["ls", "--objects"], |objects| {
        let rows = objects["objects"].as_array().unwrap();
        rows.iter().all(|row| row["holders"] == 1)
    });
    let rows = objects["objects"].as_array().unwrap();
    assert_eq!(
        rows.len(),
        site.fixture.store().objects().unwrap().objects.len()
    );
    assert_eq!(rows[0]["bytes"], 5_000_000, "the largest first");
    assert_eq!(rows[0]["id"].as_str().unwrap().len(), 64);
    let identities = site.json(&["ls", "--identities"]);
    let inode = {
        use std::os::unix::fs::MetadataExt;
        model.metadata().unwrap().ino()
    };
    assert_eq!(identities["identities"][0]["by"]["stat"]["ino"], inode);
    let text = site.run(&["ls", "--identities"]).expect(0).stdout;
    assert!(text.contains(&format!("inode {inode} on device")), "{text}");
    assert!(
        site.run(&["ls", "--objects"])
            .expect(0)
            .stdout
            .contains("4.77 MiB")
    );
    assert_eq!(site.json(&["ls", "--derived"])["derived"], json!([]));
    assert!(
        site.run(&["ls", "--derived"])
            .expect(0)
            .stdout
            .contains("no derived")
    );
}

#[test]
fn derived_records_are_listed_and_shown() {
    use tetris_store_layout::{DerivedKey, TensorId};
    let site = Site::new();
    let key = DerivedKey::new(TensorId::of(b"source"), "marlin", 3).unwrap();
    let store = site.fixture.store();
    let made = store.get_or_create(&key, Access::ReadOnly, std::time::Duration::ZERO, || {
        Ok::<_, std::convert::Infallible>(b"result".to_vec())
    });
    assert!(made.is_ok());
    let row = site.json(&["ls", "--derived"])["derived"][0].clone();
    assert_eq!(
        (&row["transform"], &row["version"]),
        (&"marlin".into(), &3.into())
    );
    assert_eq!(row["in_store"], true);
    let text = site.run(&["ls", "--derived"]).expect(0).stdout;
    assert!(text.contains("marlin v3"), "{text}");
    let id = row["id"].as_str().unwrap();
    assert_eq!(
        site.json(&["show", &id[..10]])["derived"]["object"],
        row["object"]
    );
    let text = site.run(&["show", id]).expect(0).stdout;
    assert!(text.contains("marlin") && text.contains(id), "{text}");
}

#[test]
fn show_tells_all_of_an_object_and_a_manifest() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let loaded = site.load(&model);
    let id = loaded["models"][0]["manifests"][0]["manifest"]
        .as_str()
        .unwrap();
    let by_id = site.json(&["show", &id[..8]]);
    let manifest = &by_id["manifests"][0];
    assert_eq!(manifest["id"], id);
    assert_eq!(manifest["metadata"], json!({ "format": "pt" }));
    let tensors = manifest["tensors"].as_array().unwrap();
    let weight = tensors
        .iter()
        .find(|t| t["name"] == "layer.0.weight")
        .unwrap();
    assert_eq!(
        (&weight["dtype"], &weight["shape"]),
        (&"F32".into(), &json!([1_250_000]))
    );
    let object = &manifest["objects"][weight["object"].as_u64().unwrap() as usize];
    assert_eq!(object["in_store"], true);
    let object_id = object["id"].as_str().unwrap();
    let shown = &site.json(&["show", object_id])["object"];
    assert_eq!(shown["bytes"], 5_000_000);
    assert_eq!(
        shown["used_by"],
        json!([{ "manifest": id, "as": "tensor" }])
    );
    // The name of the object's file will do as well.
    let name = format!("{object_id}-{}", object["crc"].as_str().unwrap());
    assert_eq!(&site.json(&["show", &name])["object"], shown);
    let text = site.run(&["show", id]).expect(0).stdout;
    assert!(
        text.contains("TENSOR") && text.contains("[1250000]"),
        "{text}"
    );
    let text = site.run(&["show", object_id]).expect(0).stdout;
    assert!(text.contains(&format!("manifest {id} as tensor")), "{text}");
}

#[test]
fn show_takes_paths_with_and_without_a_store() {
    let site = Site::new();
    let sharded = site.dir().join("sharded");
    write_sharded(&sharded);
    let unknown = site.json(&["show".as_ref(), sharded.as_os_str()]);
    assert_eq!(unknown["manifests"].as_array().unwrap().len(), 2);
    assert_eq!(unknown["manifests"][0]["resident_bytes"], 0, "only hashed");
    site.load(&sharded);
    let known = site.json(&["show".as_ref(), sharded.as_os_str()]);
    let (was, is) = (&unknown["manifests"][1], &known["manifests"][1]);
    assert_eq!(was["id"], is["id"]);
    assert_eq!(is["resident_bytes"], is["bytes"]);
    let mut command = tetris();
    command.args(["--store", "/nowhere", "show"]).arg(&sharded);
    assert!(
        run(&mut command)
            .expect(0)
            .stdout
            .contains("there is no store")
    );
}

#[test]
fn an_ambiguous_prefix_lists_the_candidates() {
    let site = Site::new();
    // By the birthday paradox some hundreds of contents have two with the same four digits.
    let mut seen = HashMap::new();
    let (prefix, pair) = (0_u32..)
        .find_map(|n| {
            let id = blake3::hash(&n.to_le_bytes()).to_hex().to_string();
            let prefix = id[..4].to_owned();
            let first = seen.insert(prefix.clone(), n)?;
            Some((prefix, [first, n]))
        })
        .unwrap();
    for n in pair {
        let published = site
            .fixture
            .store()
            .publish(&n.to_le_bytes(), Access::ReadOnly);
        published.unwrap();
    }
    let run = site.run(&["show", &prefix]).expect(1);
    assert!(run.stderr.contains("2 ids"), "{run:?}");
    for n in pair {
        let id = blake3::hash(&n.to_le_bytes()).to_hex().to_string();
        assert!(run.stderr.contains(&id), "{run:?}");
        site.run(&["show", &id]).expect(0);
    }
    let none = site.run(&["show", "0123456789abcdef"]).expect(1);
    assert!(none.stderr.contains("tetris ls"), "{none:?}");
}

#[test]
fn stat_counts_what_sharing_saves() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let models: Vec<_> = (0..3)
        .map(|_| site.fixture.agent.load(&model).unwrap())
        .collect();
    let bytes = models[0].report().bytes_total();
    let objects = models[0].objects().count();
    let stat = site.json_when(&["stat"], |stat| stat["holders"] == 3 * objects);
    assert_eq!(stat["objects"], objects);
    assert_eq!(stat["referenced_bytes"], bytes);
    assert!((stat["shared_factor"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(stat["saved_bytes"], 2 * bytes);
    // All three could have mapped the one file.
    assert_eq!(stat["saved_against_page_cache_bytes"], 0);
    assert_eq!(
        (&stat["manifests"], &stat["identities"]),
        (&1.into(), &1.into())
    );
    assert!(stat["capacity_bytes"].as_u64() > stat["free_bytes"].as_u64());
    let text = site.run(&["stat"]).expect(0).stdout;
    assert!(text.contains("\nshared factor     "), "{text}");
    drop(models);
    assert!((site.json(&["stat"])["shared_factor"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn stat_counts_what_the_page_cache_would_not_share() {
    let site = Site::new();
    let [one, other] = ["one.safetensors", "other.safetensors"].map(|name| site.dir().join(name));
    tetris_test_support::models::write_model(&one, 1, None);
    // A variant with another head: the rest is the same in both files.
    tetris_test_support::models::write_model(&other, 1, Some(7));
    let loaded = [&one, &other].map(|path| site.fixture.agent.load(path).unwrap());
    let shared = loaded[1].report().bytes_shared;
    assert!(shared > 10_000_000, "{:?}", loaded[1].report());
    assert_eq!(loaded[1].report().bytes_of_other_files, shared);
    assert_eq!(loaded[0].report().bytes_of_other_files, 0);
    site.json_when(&["stat"], |stat| {
        stat["saved_against_page_cache_bytes"] == shared
    });
    // Known by `stat`: its own mapping of the file may be what is shared.
    let again = site.fixture.agent.load(&other).unwrap();
    assert_eq!(again.report().bytes_of_other_files, 0);
    let counters = site.fixture.agent.counters();
    assert_eq!(counters.other_file_bytes, shared);
    assert_eq!(counters.shared_bytes, shared + again.report().bytes_shared);
    let text = site.run(&["stat"]).expect(0).stdout;
    assert!(text.contains("saved against private copies"), "{text}");
    assert!(text.contains("saved against the page cache"), "{text}");
}

#[test]
fn names_in_a_model_do_not_reach_the_terminal_raw() {
    let site = Site::new();
    let path = site.dir().join("m.safetensors");
    let header = br#"{"a\u001b[2J\nb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.push(7);
    std::fs::write(&path, file).unwrap();
    let text = site
        .run(&["show".as_ref(), path.as_os_str()])
        .expect(0)
        .stdout;
    assert!(
        text.contains("a\\u{1b}[2J\\nb") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn ls_shows_last_paths_and_sorts_by_what_it_is_asked() {
    let site = Site::new();
    let (small, large) = (site.dir().join("a.gguf"), site.dir().join("b.safetensors"));
    std::fs::rename(site.file("x", 3), &small).unwrap();
    tetris_test_support::models::settle(&small);
    std::fs::rename(site.fixture.model("y.safetensors", 1), &large).unwrap();
    tetris_test_support::models::settle(&large);
    site.load(&large);
    site.load(&small);
    let _held = site.fixture.agent.load(&large).unwrap();
    site.json_when(&["ls"], |list| {
        let rows = list["manifests"].as_array().unwrap();
        rows.iter().any(|row| row["holders"] == 1)
    });
    let paths = |args: &[&str]| -> Vec<String> {
        let list = site.json(args);
        let rows = list["manifests"].as_array().unwrap();
        let path = |row: &Value| row["last_path"].as_str().unwrap().to_owned();
        rows.iter().map(path).collect()
    };
    let (small, large) = (small.to_str().unwrap(), large.to_str().unwrap());
    for (field, first) in [
        ("size", large),
        ("tensors", large),
        ("holders", large),
        ("path", small),
    ] {
        let sorted = paths(&["ls", "--sort", field]);
        assert_eq!(sorted[0], first, "{field}");
        let reversed = paths(&["ls", "--sort", field, "--reverse"]);
        assert_eq!(reversed[1], first, "{field} --reverse");
    }
    let text = site.run(&["ls"]).expect(0).stdout;
    assert!(
        text.lines().next().unwrap().ends_with("LAST PATH"),
        "{text}"
    );
    assert!(text.contains(small) && text.contains(large), "{text}");
    // By id, `show` prints the path and who holds the model.
    let id = site.json(&["ls", "--sort", "size"])["manifests"][0]["id"].clone();
    let shown = site.run(&["show", id.as_str().unwrap()]).expect(0).stdout;
    assert!(
        shown.contains(large) && shown.contains("HELD BY"),
        "{shown}"
    );
}

#[test]
fn hints_are_renewed_at_most_once_a_minute_and_hostile_ones_are_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    site.load(&path);
    let hint = std::fs::read_dir(site.store_dir().join("paths-v1"));
    let hint = hint.unwrap().next().unwrap().unwrap().path();
    let last = || site.json(&["ls"])["manifests"][0]["last_path"].clone();
    assert_eq!(last(), path.to_str().unwrap());
    let other = site.dir().join("other.safetensors");
    std::fs::hard_link(&path, &other).unwrap();
    tetris_test_support::models::settle(&other);
    site.load(&other);
    assert_eq!(last(), path.to_str().unwrap(), "too soon");
    let age = |age: i64| {
        use nix::sys::stat::{UtimensatFlags, utimensat};
        use nix::sys::time::TimeSpec;
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_secs();
        let then = TimeSpec::new(now.cast_signed() - age, 0);
        let at = nix::fcntl::AT_FDCWD;
        utimensat(at, &hint, &then, &then, UtimensatFlags::NoFollowSymlink).unwrap();
    };
    age(61);
    site.load(&other);
    assert_eq!(last(), other.to_str().unwrap());
    // A store of an earlier build has no such folder.
    std::fs::remove_dir_all(site.store_dir().join("paths-v1")).unwrap();
    assert_eq!(last(), Value::Null);
    site.load(&path);
    assert_eq!(last(), path.to_str().unwrap());
    // Whatever a pod called its file.
    std::fs::remove_file(&hint).unwrap();
    let hostile = std::ffi::OsStr::from_bytes(b"0:/x\x1b[2J\n/y\xff");
    std::os::unix::fs::symlink(hostile, &hint).unwrap();
    let listed = site.run(&["ls"]).expect(0).stdout;
    assert!(listed.contains("/x\\u{1b}[2J\\n/y"), "{listed}");
    assert!(listed.contains("(in another mount namespace)"), "{listed}");
    assert!(!listed.contains('\u{1b}'), "{listed}");
    let top = site.run(&["top", "--once"]).expect(0).stdout;
    assert!(!top.contains('\u{1b}'), "{top}");
    // One that is no hint at all.
    std::fs::remove_file(&hint).unwrap();
    std::fs::write(&hint, b"x").unwrap();
    assert_eq!(last(), Value::Null);
    site.load(&path);
}

#[test]
fn layouts_are_listed_shown_and_counted() {
    let site = Site::new();
    let text = site.run(&["ls", "--layouts"]).expect(0).stdout;
    assert!(text.contains("no layouts"), "{text}");
    let agent = &site.fixture.agent;
    let options = LoadOptions::default();
    let key = LayoutKey::new("pack", 3)
        .with_source("weight", TensorId::of(b"source"))
        .with_condition("cpu", "avx512");
    let build = || {
        let fill = |_: u64, buffer: &mut [u8]| buffer.fill(5);
        let region = agent.publish(4096, &fill, &options).unwrap();
        let tensor = |name: &str, alias| PlacedTensor {
            name: name.to_owned(),
            dtype: Dtype::BF16,
            shape: vec![32, 64],
            strides: vec![64, 1],
            region: Some(std::sync::Arc::clone(&region)),
            offset: 0,
            alias,
        };
        Ok::<_, std::convert::Infallible>(LayoutParts {
            tensors: vec![tensor("weight", None), tensor("tied", Some(0))],
            attributes: [("kernel".to_owned(), vec![1, 2])].into(),
        })
    };
    let Ok(_held) = agent.layout(&key, &options, build).unwrap();
    let list = site.json(&["ls", "--layouts"]);
    let row = &list["layouts"][0];
    assert_eq!(row["transform"], "pack; cpu=avx512");
    assert_eq!((&row["version"], &row["tensors"]), (&3.into(), &2.into()));
    assert_eq!(
        (&row["bytes"], &row["bytes_in_store"]),
        (&4096.into(), &4096.into())
    );
    assert_eq!(site.json(&["ls", "--derived"])["derived"], json!([]));
    let stat = site.json(&["stat"]);
    assert_eq!((&stat["layouts"], &stat["derived"]), (&1.into(), &0.into()));
    let id = row["id"].as_str().unwrap();
    let shown = site.json(&["show", id]);
    let tensors = shown["layout"]["tensors"].as_array().unwrap();
    assert_eq!(tensors[1]["alias_of"], "weight");
    assert_eq!(tensors[1]["shape"], json!([32, 64]));
    assert_eq!(
        shown["layout"]["attributes"][0],
        json!({ "key": "kernel", "bytes": 2 })
    );
    let text = site.run(&["show", id]).expect(0).stdout;
    assert!(
        text.contains("kernel, 2 bytes") && text.contains("[32, 64]"),
        "{text}"
    );
    let text = site.run(&["ls", "--layouts"]).expect(0).stdout;
    assert!(text.contains("pack; cpu=avx512 v3"), "{text}");
}
