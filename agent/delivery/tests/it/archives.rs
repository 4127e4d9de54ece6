//! Archives as layers: images as KServe's Modelcars, and folders as ORAS packs them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};
use tetris_delivery::{KnownBy, PullError, PullOptions, PullReport, list, pull};
use tetris_folder::ModelFolder;
use tetris_store_layout::{Digest, TrustDomain};
use tetris_test_support::model_site::Fault;
use tetris_test_support::models::{bytes, write_f32};

use crate::world::{World, options};

const IMAGE: &str = "application/vnd.oci.image.config.v1+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// An archived layer.
struct Layer {
    media_type: String,
    /// Digest that the manifest promises.
    digest: String,
    bytes: Vec<u8>,
}

/// An archive in the making.
struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, content.len() as u64, content)
    }

    fn entry(mut self, kind: EntryType, path: &str, size: u64, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        // Paths as they come: the builder would refuse some.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn link(mut self, path: &str, target: &str, kind: EntryType) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).unwrap();
        self
    }

    fn layer(self, compression: &str) -> Layer {
        let bytes = self.0.into_inner().unwrap();
        let bytes = match compression {
            "+gzip" => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
                gzip.write_all(&bytes).unwrap();
                gzip.finish().unwrap()
            }
            "+zstd" => {
                let level = ruzstd::encoding::CompressionLevel::Fastest;
                ruzstd::encoding::compress_to_vec(&bytes[..], level)
            }
            _ => bytes,
        };
        Layer {
            media_type: format!("{TAR}{compression}"),
            digest: digest(&bytes),
            bytes,
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest(Sha256::digest(bytes).into()))
}

/// Pushes layers as `m:v1` to the site, the lowest first.
fn push(world: &World, config: &str, layers: &[Layer]) {
    let descriptors: Vec<_> = layers
        .iter()
        .map(|layer| {
            let path = format!("/v2/m/blobs/{}", layer.digest);
            world.site.put_at(&path, layer.bytes.clone());
            serde_json::json!({
                "mediaType": layer.media_type,
                "digest": layer.digest,
                "size": layer.bytes.len(),
            })
        })
        .collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "config": { "mediaType": config, "digest": digest(b"{}"), "size": 2 },
        "layers": descriptors,
    });
    let manifest = manifest.to_string();
    world.site.put_at("/v2/m/manifests/v1", manifest);
    world.site.take_asked();
    world.site.take_sent();
}

fn source(world: &World) -> String {
    world.site.url().replace("http://", "oci://") + "/m:v1"
}

fn pulled_with(world: &World, options: &PullOptions) -> Result<PullReport, PullError> {
    let source = source(world).parse().unwrap();
    pull(&source, world.destination(), options)
}

fn pulled(world: &World) -> Result<PullReport, PullError> {
    pulled_with(world, &options())
}

fn paths(report: &PullReport) -> Vec<&str> {
    let files = report.files.iter();
    files.map(|file| file.file.path.as_str()).collect()
}

/// Checks that the pulled model has a file with this content.
#[track_caller]
fn assert_file(world: &World, path: &str, content: &[u8]) {
    let source: tetris_delivery::SourceName = source(world).parse().unwrap();
    let name = source.stored_name();
    let folder = ModelFolder::open(&name, &[TrustDomain::Owner], world.store(), 2).unwrap();
    let copy = world.fixture.dir().join("copy");
    std::fs::create_dir(&copy).unwrap();
    folder.copy_to(&copy, &|_| ()).unwrap();
    assert_eq!(std::fs::read(copy.join(path)).unwrap(), content, "{path}");
    std::fs::remove_dir_all(copy).unwrap();
}

/// A file with tensors of all sizes: in packs, in an object each, and of several segments.
fn weights(world: &World, seed: u64) -> Vec<u8> {
    let path = world.fixture.dir().join("weights");
    let tensors: Vec<_> = [40, 300_000, 0, 8, 70_000, 4, 5_000_000, 12]
        .into_iter()
        .enumerate()
        .map(|(index, len)| (format!("t{index}"), bytes(seed + index as u64, len)))
        .collect();
    write_f32(&path, &tensors);
    std::fs::read(path).unwrap()
}

#[test]
fn an_image_is_pulled_once_and_its_layers_lie_over_each_other() {
    let world = World::new();
    let weights = weights(&world, 1);
    for compression in ["", "+gzip", "+zstd"] {
        let base = Tar::new()
            .file("bin/sh", b"a shell")
            .file("models/config.json", b"{}")
            .file("models/old.txt", b"old");
        let model = Tar::new()
            .entry(EntryType::Directory, "models/", 0, b"")
            .file("./models/model.safetensors", &weights)
            .file("models/config.json", br#"{"a": 1}"#)
            .file("models/pytorch_model.bin", b"the same in another format")
            .file("models/empty", b"");
        let upper = Tar::new().file("models/.wh.old.txt", b"");
        let layers = [base, model, upper].map(|layer| layer.layer(compression));
        let world = World::new();
        push(&world, IMAGE, &layers);
        let total: usize = layers.iter().map(|layer| layer.bytes.len()).sum();

        let listing = list(&source(&world).parse().unwrap(), &options()).unwrap();
        assert_eq!((listing.selected.len(), listing.archives.len()), (0, 3));
        let first = pulled(&world).unwrap();
        let expected = ["config.json", "empty", "model.safetensors"];
        assert_eq!(paths(&first), expected);
        assert_eq!(first.left_out, ["pytorch_model.bin"]);
        assert_eq!(first.fetched, total as u64, "{compression}");
        assert_file(&world, "model.safetensors", &weights);
        assert_file(&world, "config.json", br#"{"a": 1}"#);
        let copy = world.fixture.dir().join("copy.safetensors");
        std::fs::write(&copy, &weights).unwrap();
        let loaded = world.fixture.agent.load(&copy).unwrap();
        assert_eq!(loaded.report().bytes_new, 0);
        drop(loaded);

        let again = pulled(&world).unwrap();
        assert_eq!((again.fetched, again.requests), (0, 1));
        assert_eq!(paths(&again), expected);
        assert!(again.files.iter().all(|file| file.new_objects == 0
            && (file.file.size == 0 || file.known_by == KnownBy::Version)));
    }
}

#[test]
fn a_new_image_fetches_the_layers_that_are_new() {
    let world = World::new();
    let weights = weights(&world, 1);
    let model = || Tar::new().file("models/model.safetensors", &weights);
    let config = |text: &[u8]| Tar::new().file("models/config.json", text).layer("+gzip");
    push(&world, IMAGE, &[model().layer("+gzip"), config(b"1")]);
    pulled(&world).unwrap();
    let second = config(b"2");
    let len = second.bytes.len() as u64;
    push(&world, IMAGE, &[model().layer("+gzip"), second]);
    assert_eq!(pulled(&world).unwrap().fetched, len);
    assert_file(&world, "config.json", b"2");
    assert_file(&world, "model.safetensors", &weights);
}

#[test]
fn what_was_reclaimed_or_left_out_is_read_again() {
    let world = World::new();
    let weights = weights(&world, 1);
    let layer = || {
        Tar::new()
            .file("models/config.json", b"{}")
            .file("models/model.safetensors", &weights)
            .layer("+gzip")
    };
    push(&world, IMAGE, &[layer()]);
    let only = ["config.json".to_owned()];
    let some = options().with_patterns(&only, &[]).unwrap();
    let part = pulled_with(&world, &some).unwrap();
    assert_eq!(paths(&part), only);
    assert_eq!(part.left_out, ["model.safetensors"]);
    let whole = pulled(&world).unwrap();
    let known: Vec<_> = whole.files.iter().map(|file| file.known_by).collect();
    assert_eq!(known, [KnownBy::Version, KnownBy::Reading]);

    let largest = world.store().objects().unwrap().objects;
    let largest = largest
        .iter()
        .max_by_key(|object| object.object.len)
        .unwrap();
    world.store().reclaim(&largest.object).unwrap();
    let again = pulled(&world).unwrap();
    assert_eq!(again.fetched, layer().bytes.len() as u64);
    assert_eq!(again.files[1].new_objects, 1);
    assert_file(&world, "model.safetensors", &weights);
}

#[test]
fn a_packed_folder_of_an_artifact_is_the_model_itself() {
    let world = World::new();
    let layer = Tar::new()
        .file("llama/config.json", b"{}")
        .file("llama/.wh.x", b"a hidden file")
        .layer("+gzip");
    push(&world, EMPTY, &[layer]);
    let report = pulled(&world).unwrap();
    assert_eq!(paths(&report), ["llama/config.json"]);
    assert_eq!(report.left_out, ["llama/.wh.x"]);
}

#[test]
fn links_show_the_file_that_they_lead_to() {
    let world = World::new();
    let weights = weights(&world, 1);
    let layer = Tar::new()
        .file("models/real/m.safetensors", &weights)
        .link(
            "models/m.safetensors",
            "real/m.safetensors",
            EntryType::Symlink,
        )
        .link(
            "models/hard.safetensors",
            "models/m.safetensors",
            EntryType::Link,
        )
        .link("models/out.txt", "../../etc/passwd", EntryType::Symlink)
        .link("models/circle", "circle", EntryType::Symlink)
        .layer("");
    push(&world, IMAGE, &[layer]);
    for _ in 0..2 {
        let report = pulled(&world).unwrap();
        let expected = ["hard.safetensors", "m.safetensors", "real/m.safetensors"];
        assert_eq!(paths(&report), expected);
        assert_eq!(report.left_out, ["circle", "out.txt"]);
    }
    assert_file(&world, "hard.safetensors", &weights);

    let blob = Tar::new()
        .file("models/blobs/ab", &weights)
        .link("models/m.safetensors", "blobs/ab", EntryType::Symlink)
        .layer("");
    push(&world, IMAGE, &[blob]);
    let error = pulled(&world).unwrap_err().to_string();
    assert!(error.contains("cp -L"), "{error}");
}

/// The error of pulling these layers, which leaves no model.
#[track_caller]
fn refused(layers: &[Layer]) -> PullError {
    let world = World::new();
    push(&world, IMAGE, layers);
    let error = pulled(&world).unwrap_err();
    assert_eq!(world.store().manifests().unwrap().len(), 0, "{error}");
    error
}

#[test]
fn an_archive_with_another_digest_leaves_nothing() {
    let world = World::new();
    let weights = weights(&world, 1);
    for compression in ["", "+gzip"] {
        let mut layer = Tar::new()
            .file("models/model.safetensors", &weights)
            .layer(compression);
        // The time in the header of gzip, and a byte of a tensor.
        let at = if compression.is_empty() { 4_000_000 } else { 5 };
        layer.bytes[at] ^= 1;
        let world = World::new();
        push(&world, IMAGE, &[layer]);
        let error = pulled(&world).unwrap_err();
        assert!(matches!(error, PullError::Digest { .. }), "{error}");
        assert_eq!(world.objects(), 0, "{compression}");
        assert_eq!(world.store().manifests().unwrap().len(), 0);
    }
}

#[test]
fn hostile_archives_are_refused() {
    let weights = [0; 20];
    let file = |path| Tar::new().file(path, &weights);
    let outside = refused(&[file("models/../../x").layer("")]);
    assert!(matches!(outside, PullError::Path { .. }), "{outside}");
    let sparse = Tar::new().entry(EntryType::GNUSparse, "models/s", 0, b"");
    let sparse = refused(&[sparse.layer("")]).to_string();
    assert!(sparse.contains("`s` is sparse"), "{sparse}");
    let long = Tar::new().entry(EntryType::GNULongName, "x", 2 << 20, &vec![b'n'; 2 << 20]);
    let long = refused(&[long.layer("")]).to_string();
    assert!(long.contains("at most 1048576"), "{long}");
    let header = refused(&[file("models/m.safetensors").layer("+gzip")]);
    assert!(matches!(header, PullError::Load(_)), "{header}");

    let mut cut = file("models/a").layer("");
    cut.bytes.truncate(600);
    cut.digest = digest(&cut.bytes);
    let cut = refused(&[cut]).to_string();
    assert!(cut.contains("cannot be read"), "{cut}");
    let mut plain = file("models/a").layer("+gzip");
    plain.bytes = b"this is no gzip".to_vec();
    plain.digest = digest(&plain.bytes);
    let plain = refused(&[plain]).to_string();
    assert!(plain.contains("cannot be read"), "{plain}");
    let mut other = file("models/a").layer("");
    other.digest = format!("sha512:{}", "a".repeat(128));
    let other = refused(&[other]).to_string();
    assert!(other.contains("sha256"), "{other}");

    let many = (0..10_001).fold(Tar::new(), |tar, number| {
        tar.file(&format!("models/{number}"), b"")
    });
    let many = refused(&[many.layer("+gzip")]);
    assert!(matches!(many, PullError::TooManyFiles { .. }), "{many}");
    let many = (0..10_001).fold(Tar::new(), |tar, number| {
        tar.file(&format!("models/.wh.{number}"), b"")
    });
    let many = refused(&[many.layer("+gzip")]);
    assert!(matches!(many, PullError::TooManyFiles { .. }), "{many}");
}

#[test]
fn an_image_without_a_model_or_with_a_part_of_one_is_an_error() {
    let nothing = refused(&[Tar::new().file("etc/passwd", b"x").layer("+gzip")]);
    assert!(nothing.to_string().contains("models/"), "{nothing}");
    let index =
        br#"{"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#;
    let world = World::new();
    let layer = Tar::new()
        .file("models/model.safetensors.index.json", index)
        .file("models/one.safetensors", &weights(&world, 1))
        .layer("");
    push(&world, IMAGE, &[layer]);
    let error = pulled(&world).unwrap_err();
    assert!(matches!(error, PullError::MissingShard { .. }), "{error}");
}

#[test]
fn a_broken_connection_within_an_archive_is_made_again() {
    let world = World::new();
    let weights = weights(&world, 1);
    let layer = Tar::new()
        .file("models/model.safetensors", &weights)
        .layer("");
    push(&world, IMAGE, &[layer]);
    world.site.misbehave(|asked, _| {
        let is_begin = asked.range.is_some_and(|(first, _)| first == 0);
        is_begin.then_some(Fault::EndsAfter(2 << 20))
    });
    assert_eq!(paths(&pulled(&world).unwrap()), ["model.safetensors"]);
    assert_file(&world, "model.safetensors", &weights);
}
