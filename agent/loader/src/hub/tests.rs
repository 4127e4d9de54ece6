use super::*;

fn model_dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn index(map: &str) -> String {
    format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{map}}}"#)
}

#[test]
fn a_file_is_taken_whatever_its_name() {
    let dir = model_dir(&[("weights.bin", "x")]);
    let path = dir.path().join("weights.bin");
    let layout = resolve(&path).unwrap();
    assert_eq!(layout, single(path));
}

#[test]
fn an_index_gives_sorted_distinct_shards() {
    let map = r#"{"c":"s-2.safetensors","a":"s-1.safetensors","b":"./s-2.safetensors","d":"sub/s-3.safetensors"}"#;
    let dir = model_dir(&[
        (INDEX_NAME, &index(map)),
        ("other.safetensors", "not named by the index"),
        ("s-1.safetensors", ""),
        ("s-2.safetensors", ""),
        ("sub/s-3.safetensors", ""),
    ]);
    let layout = resolve(dir.path()).unwrap();
    let at = |name: &str| dir.path().join(name);
    assert_eq!(
        layout.files,
        [
            at("s-1.safetensors"),
            at("s-2.safetensors"),
            at("sub/s-3.safetensors")
        ]
    );
    let weight_map = layout.weight_map.unwrap();
    assert_eq!(weight_map.len(), 4);
    assert_eq!(weight_map["b"], at("s-2.safetensors"));
}

#[test]
fn the_single_file_comes_before_others() {
    let dir = model_dir(&[
        (SINGLE_NAME, ""),
        (INDEX_NAME, "left over"),
        ("adapter.safetensors", ""),
    ]);
    let layout = resolve(dir.path()).unwrap();
    assert_eq!(layout, single(dir.path().join(SINGLE_NAME)));
}

#[test]
fn a_lone_safetensors_file_is_taken_and_hidden_ones_are_not_counted() {
    let dir = model_dir(&[
        ("diffusion_pytorch_model.safetensors", ""),
        ("._diffusion_pytorch_model.safetensors", ""),
        ("config.json", "{}"),
    ]);
    let layout = resolve(dir.path()).unwrap();
    let only = dir.path().join("diffusion_pytorch_model.safetensors");
    assert_eq!(layout, single(only));
}

#[test]
fn several_files_without_an_index_are_listed() {
    let names: Vec<String> = (0..10).map(|i| format!("{i}.safetensors")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let dir = model_dir(&files);
    let error = resolve(dir.path()).unwrap_err();
    assert!(matches!(&error, HubError::NoModel { found, pipeline: false, .. } if *found == names));
    let text = error.to_string();
    assert!(
        text.contains(r#""7.safetensors", 2 more; name the file"#),
        "{text}"
    );
}

#[test]
fn a_pipeline_is_refused_with_the_reason() {
    let dir = model_dir(&[
        (PIPELINE_NAME, "{}"),
        ("unet/diffusion_pytorch_model.safetensors", ""),
    ]);
    let text = resolve(dir.path()).unwrap_err().to_string();
    assert!(text.contains("found none of them"), "{text}");
    assert!(
        text.contains("diffusers pipeline, which is not supported"),
        "{text}"
    );
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    for name in [
        "/etc/passwd",
        "../x.safetensors",
        "a/../../x",
        "",
        ".",
        "a\\u0000b",
    ] {
        let map = format!(r#"{{"w":"{name}"}}"#);
        let dir = model_dir(&[(INDEX_NAME, &index(&map))]);
        let error = resolve(dir.path()).unwrap_err();
        assert!(
            matches!(&error, HubError::UnsafeName { tensor, .. } if tensor == "w"),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_missing_shard_is_named() {
    let map = r#"{"a":"here.safetensors","b":"gone.safetensors"}"#;
    let dir = model_dir(&[(INDEX_NAME, &index(map)), ("here.safetensors", "")]);
    let error = resolve(dir.path()).unwrap_err();
    let gone = dir.path().join("gone.safetensors");
    assert!(matches!(error, HubError::MissingShard { path } if path == gone));
}

#[test]
fn an_index_that_is_no_index_is_refused() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{"a":1}}"#,
    ] {
        let dir = model_dir(&[(INDEX_NAME, text)]);
        let error = resolve(dir.path()).unwrap_err();
        assert!(
            matches!(error, HubError::IndexJson { .. }),
            "{text}: {error}"
        );
    }
    let dir = model_dir(&[(INDEX_NAME, &index("{}"))]);
    let error = resolve(dir.path()).unwrap_err();
    assert!(matches!(error, HubError::IndexEmpty { .. }), "{error}");
}

#[test]
fn an_index_beyond_the_limit_is_refused() {
    let dir = model_dir(&[(INDEX_NAME, "")]);
    let sparse = File::options()
        .write(true)
        .open(dir.path().join(INDEX_NAME));
    sparse.unwrap().set_len(MAX_INDEX_LEN + 1).unwrap();
    let error = resolve(dir.path()).unwrap_err();
    assert!(matches!(
        error,
        HubError::IndexTooLarge {
            limit: MAX_INDEX_LEN,
            ..
        }
    ));
}

#[test]
fn a_path_to_nothing_and_a_socket_are_refused() {
    let dir = model_dir(&[]);
    let error = resolve(&dir.path().join("gone")).unwrap_err();
    assert!(
        matches!(error, HubError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    );
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = resolve(&socket).unwrap_err();
    assert!(matches!(error, HubError::NotAFile { path } if path == socket));
}

#[test]
fn a_snapshot_of_links_resolves_and_its_blob_claims_a_digest() {
    let digest = "00ff".repeat(16);
    let blob = format!("blobs/{digest}");
    let dir = model_dir(&[(blob.as_str(), ""), ("snapshots/main/config.json", "{}")]);
    let link = dir.path().join("snapshots/main").join(SINGLE_NAME);
    std::os::unix::fs::symlink(format!("../../{blob}"), &link).unwrap();
    let layout = resolve(&dir.path().join("snapshots/main")).unwrap();
    assert_eq!(layout, single(link.clone()));
    let claim = blob_claim(&link).unwrap();
    assert_eq!(claim[..4], [0x00, 0xff, 0x00, 0xff]);
}

#[test]
fn only_sixty_four_lowercase_digits_below_blobs_are_a_claim() {
    let good = "0123456789abcdef".repeat(4);
    let upper = good.to_uppercase();
    let names = [
        (format!("blobs/{good}"), true),
        (format!("blobs/{upper}"), false),
        (format!("blobs/{good}00"), false),
        (format!("blobs/{}", &good[1..]), false),
        (format!("blobs/{}g", &good[1..]), false),
        (format!("other/{good}"), false),
    ];
    for (name, claims) in &names {
        let dir = model_dir(&[(name.as_str(), "")]);
        assert_eq!(
            blob_claim(&dir.path().join(name)).is_some(),
            *claims,
            "{name}"
        );
    }
    assert_eq!(blob_claim(Path::new("/nonexistent")), None);
}

#[test]
fn a_link_to_a_deleted_blob_is_no_file() {
    let dir = model_dir(&[]);
    std::os::unix::fs::symlink("nowhere", dir.path().join(SINGLE_NAME)).unwrap();
    let error = resolve(dir.path()).unwrap_err();
    assert!(matches!(error, HubError::NoModel { found, .. } if found.is_empty()));
}

#[test]
fn a_folder_of_the_cache_is_told_its_snapshot() {
    let of = |files: &[(&str, &str)]| {
        let dir = model_dir(files);
        let error = resolve(dir.path()).unwrap_err().to_string();
        error.replace(dir.path().to_str().unwrap(), "ROOT")
    };
    let main = of(&[
        ("refs/main", "abc123\n"),
        ("snapshots/abc123/config.json", "{}"),
    ]);
    assert!(
        main.contains("name the snapshot `ROOT/snapshots/abc123`"),
        "{main}"
    );
    // Without the revision that `main` means, any that is there.
    let other = of(&[("refs/main", "gone"), ("snapshots/def/config.json", "{}")]);
    assert!(other.contains("`ROOT/snapshots/def`"), "{other}");
    let hostile = of(&[("refs/main", "../.."), ("snapshots/def/config.json", "{}")]);
    assert!(hostile.contains("`ROOT/snapshots/def`"), "{hostile}");
    let none = of(&[("config.json", "{}")]);
    assert!(
        none.contains("name the file to load") && !none.contains("snapshot"),
        "{none}"
    );
}
