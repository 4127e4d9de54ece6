//! Loading through the store: what is shared, how files are recognized, what happens to references.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{
    Access, Agent, LoadError, LoadOptions, ManifestKind, Origin, ProgressFn, Recognized, TensorSet,
    sidecar,
};

use tetris_test_support::models::{self, Fixture, assert_same, file_bytes, write_model};

#[test]
fn the_first_load_publishes_and_the_second_reads_nothing() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let first = fixture.agent.load(&path).unwrap();
    assert_same(&first, &path);
    let report = first.report();
    assert_eq!(report.recognized, [Recognized::ByHashing]);
    assert_eq!((report.bytes_shared, report.bytes_private), (0, 0));
    assert_eq!(report.bytes_read, report.bytes_new);

    let second = Agent::open_store(fixture.store_dir())
        .unwrap()
        .load(&path)
        .unwrap();
    assert_same(&second, &path);
    let report = second.report();
    assert_eq!(report.recognized, [Recognized::ByStat]);
    assert_eq!(
        (report.bytes_read, report.bytes_new, report.bytes_private),
        (0, 0, 0)
    );
    assert!(
        second
            .tensors()
            .all(|t| matches!(t.origin(), Origin::Shared | Origin::Empty))
    );
}

#[test]
fn a_copy_of_a_known_file_is_hashed_once_and_shares_everything() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let _first = fixture.agent.load(&path).unwrap();
    let copy = fixture.dir().join("copy.safetensors");
    std::fs::copy(&path, &copy).unwrap();
    let model = fixture.agent.load(&copy).unwrap();
    assert_same(&model, &copy);
    let report = model.report();
    assert_eq!(report.recognized, [Recognized::ByHashing]);
    assert_eq!((report.bytes_new, report.bytes_private), (0, 0));
    assert_eq!(report.bytes_read, report.bytes_shared);
}

#[test]
fn a_variant_shares_all_but_its_changed_tensors() {
    let fixture = Fixture::new();
    let base = fixture
        .agent
        .load(fixture.model("base.safetensors", 1))
        .unwrap();
    let path = fixture.dir().join("variant.safetensors");
    write_model(&path, 1, Some(99));
    let variant = fixture.agent.load(&path).unwrap();
    assert_same(&variant, &path);
    let changed = variant.tensor("head.weight").unwrap();
    assert_eq!(changed.origin(), Origin::New);
    assert_eq!(variant.report().bytes_new, changed.bytes().len() as u64);
    assert_eq!(base.report().bytes_total(), variant.report().bytes_total());
}

#[test]
fn references_hold_until_the_last_thread_drops_the_model() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = Arc::new(fixture.agent.load(&path).unwrap());
    let objects: Vec<_> = model.objects().collect();
    let handles: Vec<_> = (0..4)
        .map(|_| {
            let model = Arc::clone(&model);
            std::thread::spawn(move || assert_same(&model, &path_of(&model)))
        })
        .collect();
    drop(model);
    for handle in handles {
        handle.join().unwrap();
    }
    let report = collect(fixture.store(), &GcOptions::default()).unwrap();
    assert_eq!(report.freed_objects, objects.len() as u64);
    assert_eq!(report.freed_records, 2, "manifest and identity");
    assert!(fixture.store().objects().unwrap().objects.is_empty());
}

fn path_of(model: &tetris_agent::Model) -> std::path::PathBuf {
    model.manifests().next().unwrap().0.to_owned()
}

#[test]
fn nothing_that_a_model_references_is_collected() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = fixture.agent.load(&path).unwrap();
    let report = collect(fixture.store(), &GcOptions::default()).unwrap();
    assert_eq!((report.freed_objects, report.freed_records), (0, 0));
    assert_same(&model, &path);
}

#[test]
fn reclaimed_objects_of_a_known_file_are_published_again() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = fixture.agent.load(&path).unwrap();
    let object = model.objects().next().unwrap();
    drop(model);
    fixture.store().reclaim(&object).unwrap();
    let model = fixture.agent.load(&path).unwrap();
    assert_same(&model, &path);
    assert_eq!(model.report().recognized, [Recognized::ByStat]);
    assert_eq!(model.report().bytes_new, object.len);
    assert_eq!(model.report().bytes_read, object.len, "read once");
}

#[test]
fn copy_on_write_changes_are_seen_by_their_writer_alone() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let options = LoadOptions::default().with_access(Access::CopyOnWrite);
    let mut mine = fixture.agent.load_with(&path, &options).unwrap();
    mine.tensor_mut("head.weight").unwrap()[0] ^= 0xff;
    let theirs = fixture.agent.load(&path).unwrap();
    assert_same(&theirs, &path);
    let (a, b) = (
        mine.tensor("head.weight").unwrap(),
        theirs.tensor("head.weight").unwrap(),
    );
    assert_ne!(a.bytes()[0], b.bytes()[0]);
    let mut theirs = theirs;
    assert!(theirs.tensor_mut("head.weight").is_none(), "read-only");
}

#[test]
fn a_strangers_store_is_used_only_by_its_name() {
    let fixture = Fixture::new();
    if std::os::unix::fs::chown(fixture.store_dir(), Some(65_534), None).is_err() {
        eprintln!("SKIPPED: a_strangers_store_is_used_only_by_its_name: needs root");
        return;
    }
    let named = StoreLocation::named(fixture.store_dir());
    assert!(Agent::at(&named).store().is_some());
    let mut default = named;
    default.named = false;
    let agent = Agent::at(&default);
    assert!(agent.store().is_none());
    let reason = agent.unavailable().unwrap();
    assert!(reason.contains("belongs to user 65534"), "{reason}");
    let private = agent.load(fixture.model("model.safetensors", 1)).unwrap();
    assert_eq!(private.report().private_reason.as_deref(), Some(reason));
}

#[test]
fn without_a_store_models_load_into_private_memory() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    for agent in [
        Agent::without_store(),
        Agent::at(&StoreLocation::named("/nonexistent/store")),
    ] {
        let model = agent.load(&path).unwrap();
        assert_same(&model, &path);
        assert_eq!(model.report().bytes_private, model.report().bytes_total());
        assert!(model.report().private_reason.is_some());
        assert_eq!(agent.counters().private_loads, 1);
    }
}

#[test]
fn a_sidecar_identifies_a_copy_with_the_same_time_stamps() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let kind = ManifestKind::Safetensors;
    let options = LoadOptions::default();
    let (_, manifest) = fixture
        .agent
        .manifests(&path, kind, &options)
        .unwrap()
        .remove(0);
    assert!(
        fixture.store().objects().unwrap().objects.is_empty(),
        "nothing is published"
    );
    sidecar::write(&path, &manifest).unwrap();
    let model = fixture.agent.load(&path).unwrap();
    assert_same(&model, &path);
    assert_eq!(model.report().recognized, [Recognized::BySidecar]);
    drop(model);
    let again = fixture.agent.load(&path).unwrap();
    assert_eq!(
        again.report().recognized,
        [Recognized::BySidecar],
        "nothing is bound"
    );
    assert_eq!(again.report().bytes_read, 0);
}

#[test]
fn a_sidecar_of_an_earlier_version_is_ignored() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let kind = ManifestKind::Safetensors;
    let options = LoadOptions::default();
    let (_, manifest) = fixture
        .agent
        .manifests(&path, kind, &options)
        .unwrap()
        .remove(0);
    sidecar::write(&path, &manifest).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    write_model(&path, 2, None);
    // Same length, same time: header and sample must tell.
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    let model = fixture.agent.load(&path).unwrap();
    assert_same(&model, &path);
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
}

#[test]
fn a_sidecar_with_the_wrong_manifest_cannot_give_wrong_bytes_that_are_not_in_the_store() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let kind = ManifestKind::Safetensors;
    let options = LoadOptions::default();
    let (_, mut manifest) = fixture
        .agent
        .manifests(&path, kind, &options)
        .unwrap()
        .remove(0);
    for entry in &mut manifest.objects {
        entry.object.crc ^= 1;
    }
    sidecar::write(&path, &manifest).unwrap();
    let model = fixture.agent.load(&path).unwrap();
    assert_same(&model, &path);
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
}

#[test]
fn a_hugging_face_blob_is_known_by_name_once_its_digest_was_computed() {
    use sha2::{Digest, Sha256};
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let digest = Sha256::digest(std::fs::read(&path).unwrap());
    let name = digest
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let mut blobs = Vec::new();
    for pod in ["one", "two"] {
        let dir = fixture.dir().join(pod).join("blobs");
        std::fs::create_dir_all(&dir).unwrap();
        blobs.push(dir.join(&name));
        std::fs::copy(&path, dir.join(&name)).unwrap();
    }
    let first = fixture.agent.load(&blobs[0]).unwrap();
    assert_eq!(first.report().recognized, [Recognized::ByHashing]);
    let second = fixture.agent.load(&blobs[1]).unwrap();
    assert_same(&second, &path);
    assert_eq!(second.report().recognized, [Recognized::ByBlobName]);
    assert_eq!(second.report().bytes_read, 0);

    // A name that lies is never bound.
    let dir = fixture.dir().join("liar").join("blobs");
    std::fs::create_dir_all(&dir).unwrap();
    let liar = dir.join("0".repeat(64));
    std::fs::copy(&path, &liar).unwrap();
    let _loaded = fixture.agent.load(&liar).unwrap();
    let dir = fixture.dir().join("victim").join("blobs");
    std::fs::create_dir_all(&dir).unwrap();
    let victim = dir.join("0".repeat(64));
    write_model(&victim, 3, None);
    let model = fixture.agent.load(&victim).unwrap();
    assert_same(&model, &victim);
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
}

#[test]
fn a_changed_file_is_hashed_again() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let _old = fixture.agent.load(&path).unwrap();
    write_model(&path, 2, None);
    let model = fixture.agent.load(&path).unwrap();
    assert_same(&model, &path);
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
}

#[test]
fn a_sharded_directory_is_one_model() {
    let fixture = Fixture::new();
    let dir = fixture.dir().join("sharded");
    models::write_sharded(&dir);
    let model = fixture.agent.load(&dir).unwrap();
    let names: Vec<_> = model.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names.len(), 4);
    assert_eq!(model.tensor("b.weight").unwrap().bytes(), file_bytes(2));
    assert_eq!(model.report().recognized, [Recognized::ByHashing; 2]);
    let again = fixture.agent.load(&dir).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByStat; 2]);
}

#[test]
fn an_index_that_names_a_missing_tensor_is_an_error() {
    let fixture = Fixture::new();
    let dir = fixture.dir().join("sharded");
    models::write_sharded(&dir);
    let index = dir.join("model.safetensors.index.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("b.weight", "c.weight")).unwrap();
    let error = fixture.agent.load(&dir).unwrap_err();
    assert!(matches!(error, LoadError::MissingTensor { .. }), "{error}");
}

#[test]
fn every_dtype_scalars_and_empty_tensors_survive() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("dtypes.safetensors");
    models::write_all_dtypes(&path);
    for _ in 0..2 {
        let model = fixture.agent.load(&path).unwrap();
        assert_same(&model, &path);
        assert_eq!(model.tensors().len(), 22 + 2);
        assert!(model.tensor("scalar").unwrap().shape().is_empty());
        assert_eq!(model.tensor("empty").unwrap().origin(), Origin::Empty);
        assert_eq!(model.metadata().collect::<Vec<_>>(), [("format", "pt")]);
    }
    assert_same(&Agent::without_store().load(&path).unwrap(), &path);
}

#[test]
fn a_file_without_tensors_loads() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("none.safetensors");
    std::fs::write(&path, b"\x02\0\0\0\0\0\0\0{}").unwrap();
    for _ in 0..2 {
        assert_eq!(fixture.agent.load(&path).unwrap().tensors().len(), 0);
    }
}

#[test]
fn a_whole_file_is_shared_by_path() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("model.gguf");
    std::fs::write(&path, vec![7; 9_000_000]).unwrap();
    models::settle(&path);
    let options = LoadOptions::default();
    let file = fixture.agent.share_file(&path, &options).unwrap();
    assert!(file.is_shared());
    assert_eq!(std::fs::read(file.path()).unwrap(), vec![7; 9_000_000]);
    let again = fixture.agent.share_file(&path, &options).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByStat]);
    assert_eq!(again.path(), file.path());
    let private = Agent::without_store().share_file(&path, &options).unwrap();
    assert_eq!(
        (private.path(), private.is_shared()),
        (path.as_path(), false)
    );
}

#[test]
fn the_same_file_can_be_tensors_and_a_whole() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let options = LoadOptions::default();
    let model = fixture.agent.load(&path).unwrap();
    let file = fixture.agent.share_file(&path, &options).unwrap();
    assert_eq!(file.bytes().unwrap(), std::fs::read(&path).unwrap());
    assert_same(&model, &path);
    assert_eq!(
        fixture.agent.load(&path).unwrap().report().recognized,
        [Recognized::ByStat]
    );
}

#[test]
fn progress_ends_at_the_total() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let most = Arc::new(AtomicU64::new(0));
    let total = Arc::new(AtomicU64::new(0));
    let (seen, all) = (Arc::clone(&most), Arc::clone(&total));
    let progress = ProgressFn::new(move |progress| {
        seen.fetch_max(progress.done, Ordering::Relaxed);
        all.store(progress.total, Ordering::Relaxed);
    });
    let options = LoadOptions::default().with_progress(progress);
    let model = fixture.agent.load_with(&path, &options).unwrap();
    assert_eq!(most.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
    assert_eq!(total.load(Ordering::Relaxed), model.report().bytes_total());
}

#[test]
fn similarity_counts_distinct_tensors() {
    let fixture = Fixture::new();
    let (one, two) = (
        fixture.dir().join("a.safetensors"),
        fixture.dir().join("b.safetensors"),
    );
    write_model(&one, 1, None);
    write_model(&two, 1, Some(99));
    let options = LoadOptions::default();
    let set = |path| {
        let manifests = fixture
            .agent
            .manifests(path, ManifestKind::Safetensors, &options)
            .unwrap();
        TensorSet::of(manifests.iter().map(|(_, manifest)| manifest))
    };
    let similarity = set(&one).similarity(&set(&two));
    let head = fixture
        .agent
        .load(&one)
        .unwrap()
        .tensor("head.weight")
        .unwrap()
        .bytes()
        .len();
    assert_eq!(similarity.a_bytes - similarity.common_bytes, head as u64);
    assert!(similarity.theta() > 0.5 && similarity.theta() < 1.0);
    assert!((set(&one).similarity(&set(&one)).theta() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn a_derived_tensor_is_made_once_per_node_and_shared() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = fixture.agent.load(&path).unwrap();
    let id = model.tensor("head.weight").unwrap().id().unwrap();
    let options = LoadOptions::default();
    let derive = |agent: &Agent, make: fn() -> Vec<u8>| {
        agent
            .derive(
                id,
                "cast f32->bf16",
                1,
                &options,
                || Ok::<_, String>(make()),
            )
            .unwrap()
            .unwrap()
    };
    let first = derive(&fixture.agent, || vec![7; 200_000]);
    assert_eq!((first.origin(), first.len()), (Origin::New, 200_000));
    let other = Agent::open_store(fixture.store_dir()).unwrap();
    let second = derive(&other, || unreachable!("it is in the store"));
    assert_eq!(second.origin(), Origin::Shared);
    assert_eq!(first[..], second[..]);

    let private = derive(&Agent::without_store(), || vec![7; 200_000]);
    assert_eq!(
        (private.origin(), &private[..]),
        (Origin::Private, &first[..])
    );
    assert!(private.private_reason().is_some());
}

#[test]
fn an_error_of_a_transform_is_the_callers_and_nothing_is_recorded() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = fixture.agent.load(&path).unwrap();
    let id = model.tensor("head.weight").unwrap().id().unwrap();
    let options = LoadOptions::default();
    let derive = |result: Result<Vec<u8>, &'static str>| {
        let agent = &fixture.agent;
        agent.derive(id, "fails", 1, &options, || result).unwrap()
    };
    assert_eq!(derive(Err("no")).unwrap_err(), "no");
    assert_eq!(derive(Ok(vec![1; 70_000])).unwrap().origin(), Origin::New);
}

#[test]
fn detached_tensors_outlive_their_model_and_hold_their_own_object_alone() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let options = LoadOptions::default().with_access(Access::CopyOnWrite);
    let model = fixture.agent.load_with(&path, &options).unwrap();
    let expected: Vec<_> = model
        .tensors()
        .map(|tensor| (tensor.name().to_owned(), tensor.bytes().as_ptr() as usize))
        .collect();
    let (mut tensors, report) = model.detach();
    assert_eq!(report.tensors, tensors.len() as u64);
    for (tensor, (name, address)) in tensors.iter().zip(&expected) {
        assert_eq!(tensor.name, *name);
        if tensor.len > 0 {
            assert_eq!(tensor.address().get(), *address);
        }
        assert!(tensor.is_writable());
    }
    tensors.retain(|tensor| tensor.name == "head.weight");
    let kept = *tensors[0].region.as_ref().unwrap().object().unwrap();
    let store = fixture.store();
    let freed = collect(store, &GcOptions::default()).unwrap();
    assert!(freed.freed_bytes > 0);
    let left: Vec<_> = store.objects().unwrap().objects;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].object, kept);
}

#[test]
fn what_is_in_memory_is_published_once_and_attached_by_name() {
    let fixture = Fixture::new();
    let bytes: Vec<u8> = (0..9_000_001u32).map(|n| (n * 7) as u8).collect();
    let read_at = |offset: u64, buffer: &mut [u8]| {
        let begin = offset as usize;
        buffer.copy_from_slice(&bytes[begin..begin + buffer.len()]);
    };
    let options = LoadOptions::default();
    let publish = || {
        fixture
            .agent
            .publish(bytes.len() as u64, &read_at, &options)
    };
    let first = publish().unwrap();
    assert_eq!((first.origin(), first.len()), (Origin::New, bytes.len()));
    let object = *first.object().unwrap();
    assert_eq!(object, tetris_store_layout::ObjectRef::of(&bytes));
    assert_eq!(publish().unwrap().origin(), Origin::Shared);
    let named = fixture.agent.attach(&object.file_name(), &options).unwrap();
    assert_eq!(named.unwrap().object(), Some(&object));
    assert!(
        fixture
            .agent
            .attach("../store", &options)
            .unwrap()
            .is_none()
    );
    let id = tetris_agent::content_id(bytes.len() as u64, &read_at, &options).unwrap();
    assert_eq!(id.0, object.id.0);
    let refused = Agent::without_store().publish(3, &|_, buffer| buffer.fill(0), &options);
    assert!(refused.is_err());
}

#[test]
fn an_opened_file_stays_the_one_that_was_opened() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let opened = fixture.agent.open_file(&path).unwrap();
    let names = opened.header().tensors.len();
    std::fs::rename(fixture.model("other.safetensors", 2), &path).unwrap();
    let of_path = fixture.agent.load(&path).unwrap();
    let of_open = opened.load(&LoadOptions::default()).unwrap();
    assert_eq!(of_open.tensors().len(), names);
    let bytes = |model: &tetris_agent::Model| model.tensor("head.weight").unwrap().bytes().to_vec();
    assert_ne!(bytes(&of_open), bytes(&of_path));
}

#[test]
fn a_files_digest_is_remembered_without_its_content() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let digest = fixture.agent.file_id(&path).unwrap();
    let content = std::fs::read(&path).unwrap();
    assert_eq!(digest, tetris_store_layout::TensorId::of(&content));
    assert!(fixture.store().objects().unwrap().objects.is_empty());
    assert_eq!(fixture.store().identities().unwrap().len(), 1);
    // Loading the file whole goes on from there.
    let whole = fixture.agent.share_file(&path, &LoadOptions::default());
    assert_eq!(whole.unwrap().bytes().unwrap(), content);
    assert_eq!(fixture.agent.file_id(&path).unwrap(), digest);
}
