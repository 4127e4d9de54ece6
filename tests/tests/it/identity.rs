//! A file is never taken for another, whatever `stat` returns (INV-10, INV-11, LAYOUT.md 8).

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use tetris_agent::{Agent, LoadOptions, ManifestKind, Model, Recognized, sidecar};
use tetris_store_layout::{FileIdentity, FileSystem, IdentityBy, IdentityKey, ManifestId};
use tetris_tests::image::{self, Kind, Loop};
use tetris_tests::model::{Spec, equal_specs, fingerprint, fingerprint_of_file, serialize};
use tetris_tests::mount::Mount;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip;
use tetris_tests::skip::is_root;

/// About 4 MB: more than is compared whole.
fn specs(seed: u64) -> Vec<Spec> {
    equal_specs(seed, 20, 200_000)
}

fn content(seed: u64) -> Vec<u8> {
    serialize(&specs(seed)).unwrap()
}

fn write(path: &Path, seed: u64) {
    std::fs::write(path, content(seed)).unwrap();
}

fn identity(path: &Path) -> FileIdentity {
    FileIdentity::of(&std::fs::metadata(path).unwrap())
}

fn system(path: &Path) -> Option<FileSystem> {
    let file = File::open(path).unwrap();
    FileSystem::of(&file, &FileIdentity::of(&file.metadata().unwrap()))
}

fn key(path: &Path, kind: ManifestKind) -> IdentityKey {
    let (file, system) = (identity(path), system(path).unwrap());
    let by = IdentityBy::Stat { file, system };
    IdentityKey { kind, by }
}

/// Options under which small and new files are shared as large ones are.
fn sharing_all() -> LoadOptions {
    LoadOptions::default().with_min_shared_bytes(0)
}

/// Loads the file, and makes sure that its own tensors came of it.
fn load(agent: &Agent, path: &Path) -> Recognized {
    let model = agent.load_with(path, &sharing_all()).unwrap();
    require_own(&model, path);
    model.report().recognized[0]
}

fn require_own(model: &Model, path: &Path) {
    assert_eq!(
        fingerprint(model).unwrap(),
        fingerprint_of_file(path).unwrap(),
        "wrong weights, recognized by {:?}",
        model.report().recognized
    );
}

/// Loads a file until it is recognized: one that was just written is not bound.
fn load_until_known(agent: &Agent, path: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while load(agent, path) != Recognized::ByStat {
        assert!(Instant::now() < deadline, "never known: {}", path.display());
    }
}

fn identities(scratch: &Scratch) -> usize {
    scratch.store().identities().unwrap().len()
}

/// A file and a binding of its identity to the manifest of another one: what a clock that was set back, or a change that nothing
/// stamped, leaves behind.
struct Mistaken {
    scratch: Scratch,
    path: PathBuf,
    kind: ManifestKind,
}

impl Mistaken {
    fn new(kind: ManifestKind, own: &[u8], other: &[u8]) -> Self {
        let scratch = Scratch::new().unwrap();
        let (path, other_path) = (scratch.model("own"), scratch.model("other"));
        std::fs::write(&path, own).unwrap();
        std::fs::write(&other_path, other).unwrap();
        let agent = scratch.agent().unwrap();
        let manifest = match kind {
            ManifestKind::Safetensors => {
                let model = agent.load_with(&other_path, &sharing_all()).unwrap();
                model.manifests().next().unwrap().1
            }
            ManifestKind::File => {
                let file = agent.share_file(&other_path, &sharing_all());
                file.unwrap().manifest()
            }
        };
        let mistaken = Self {
            scratch,
            path,
            kind,
        };
        mistaken.bind(manifest.unwrap());
        mistaken
    }

    fn of_seeds(kind: ManifestKind) -> Self {
        Self::new(kind, &content(1), &content(2))
    }

    fn bind(&self, manifest: ManifestId) {
        let key = key(&self.path, self.kind);
        self.scratch.store().bind(&key, manifest).unwrap();
    }

    /// Manifest that the file's identity names.
    fn bound(&self) -> Option<ManifestId> {
        let key = key(&self.path, self.kind);
        self.scratch.store().look_up(&key).unwrap()
    }
}

#[test]
fn a_file_with_the_identity_of_another_is_hashed_and_the_binding_removed() {
    let mistaken = Mistaken::of_seeds(ManifestKind::Safetensors);
    let wrong = mistaken.bound();
    let agent = mistaken.scratch.agent().unwrap();
    assert_eq!(load(&agent, &mistaken.path), Recognized::ByHashing);
    assert_ne!(mistaken.bound(), wrong);
    load_until_known(&agent, &mistaken.path);
}

#[test]
fn a_file_that_is_opened_first_and_loaded_later_is_compared() {
    let mistaken = Mistaken::of_seeds(ManifestKind::Safetensors);
    let agent = mistaken.scratch.agent().unwrap();
    let opened = agent.open_file(&mistaken.path).unwrap();
    let model = opened.load(&sharing_all()).unwrap();
    require_own(&model, &mistaken.path);
}

#[test]
fn a_whole_file_is_compared() {
    let mistaken = Mistaken::of_seeds(ManifestKind::File);
    let agent = mistaken.scratch.agent().unwrap();
    let file = agent.share_file(&mistaken.path, &sharing_all());
    let file = file.unwrap();
    assert_eq!(file.report().recognized, [Recognized::ByHashing]);
    assert_eq!(file.bytes().unwrap(), content(1));
}

#[test]
fn what_a_file_is_said_to_consist_of_is_compared() {
    for kind in [ManifestKind::Safetensors, ManifestKind::File] {
        let mistaken = Mistaken::of_seeds(kind);
        let wrong = mistaken.bound().unwrap();
        let agent = mistaken.scratch.agent().unwrap();
        let options = sharing_all();
        let manifests = agent.manifests(&mistaken.path, kind, &options).unwrap();
        assert_ne!(manifests[0].1.id(), wrong);
        assert_eq!(mistaken.bound(), None);
    }
}

#[test]
fn names_that_were_exchanged_in_the_header_alone_are_noticed() {
    let file = content(1);
    let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let text = String::from_utf8(file[8..8 + len].to_vec()).unwrap();
    let text = text.replace("layer.000", "layer.tmp");
    let text = text.replace("layer.001", "layer.000");
    let text = text.replace("layer.tmp", "layer.001");
    let mut other = file.clone();
    other[8..8 + len].copy_from_slice(text.as_bytes());
    assert_ne!(file, other);
    let mistaken = Mistaken::new(ManifestKind::Safetensors, &file, &other);
    let agent = mistaken.scratch.agent().unwrap();
    assert_eq!(load(&agent, &mistaken.path), Recognized::ByHashing);
}

#[test]
fn one_byte_of_a_small_file_is_noticed_wherever_it_is() {
    let file = serialize(&equal_specs(1, 3, 40_000)).unwrap();
    for at in [file.len() - 120_000, file.len() - 60_001, file.len() - 1] {
        let mut other = file.clone();
        other[at] ^= 1;
        let mistaken = Mistaken::new(ManifestKind::Safetensors, &file, &other);
        let agent = mistaken.scratch.agent().unwrap();
        assert_eq!(load(&agent, &mistaken.path), Recognized::ByHashing, "{at}");
    }
}

/// Each attach looks elsewhere: a hundredth of the blocks gets past one with 0.72, past a hundred with 1e-14.
#[test]
fn a_hundredth_of_a_file_is_noticed_by_one_of_many_attaches() {
    let file = content(1);
    let mut other = file.clone();
    for block in (50..file.len() / 4096).step_by(100) {
        other[block * 4096 + 7] ^= 1;
    }
    let mistaken = Mistaken::new(ManifestKind::Safetensors, &file, &other);
    let agent = mistaken.scratch.agent().unwrap();
    let noticed = (0..100).any(|_| {
        let model = agent.load_with(&mistaken.path, &sharing_all()).unwrap();
        model.report().recognized == [Recognized::ByHashing]
    });
    assert!(noticed);
    // It was just written: the loads bind it once it is old enough.
    load_until_known(&agent, &mistaken.path);
}

#[test]
fn a_reclaimed_object_is_read_from_the_file_and_the_rest_compared() {
    let mistaken = Mistaken::of_seeds(ManifestKind::Safetensors);
    let store = mistaken.scratch.store();
    for entry in store.objects().unwrap().objects.iter().skip(7) {
        store.reclaim(&entry.object).unwrap();
    }
    let agent = mistaken.scratch.agent().unwrap();
    assert_eq!(load(&agent, &mistaken.path), Recognized::ByHashing);
}

#[test]
fn a_sidecar_of_other_content_is_noticed_at_random_places() {
    let scratch = Scratch::new().unwrap();
    let (path, other) = (scratch.model("own"), scratch.model("other"));
    write(&path, 1);
    // The header is the same: it reveals nothing of values.
    write(&other, 2);
    let agent = scratch.agent().unwrap();
    let options = sharing_all().with_ignore_identity(true);
    load(&agent, &other);
    let manifests = agent.manifests(&other, ManifestKind::Safetensors, &options);
    let (_, manifest) = manifests.unwrap().pop().unwrap();
    // Valid in all that it has of the file, and of another manifest.
    sidecar::write(&path, &manifest).unwrap();
    assert_eq!(load(&agent, &path), Recognized::ByHashing);
}

#[test]
fn a_sidecar_counts_only_as_a_file_of_the_models_owner_or_of_root() {
    if !is_root() {
        skip!("needs root to give files to other users");
    }
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("own");
    write(&path, 1);
    let agent = scratch.agent().unwrap();
    let options = sharing_all();
    let manifests = agent.manifests(&path, ManifestKind::Safetensors, &options);
    let (_, manifest) = manifests.unwrap().pop().unwrap();
    let beside = sidecar::write(&path, &manifest).unwrap();
    let owned = |model: u32, sidecar: u32| {
        std::os::unix::fs::chown(&path, Some(model), None).unwrap();
        std::os::unix::fs::lchown(&beside, Some(sidecar), None).unwrap();
        for (id, _) in scratch.store().identities().unwrap() {
            scratch.store().remove_identity(id).unwrap();
        }
        load(&agent, &path)
    };
    assert_eq!(owned(1000, 1000), Recognized::BySidecar);
    assert_eq!(owned(1000, 0), Recognized::BySidecar);
    assert_eq!(owned(1000, 1001), Recognized::ByHashing);
    assert_eq!(owned(0, 1001), Recognized::ByHashing);
    let elsewhere = scratch.models().join("elsewhere");
    std::fs::rename(&beside, &elsewhere).unwrap();
    symlink(&elsewhere, &beside).unwrap();
    assert_eq!(owned(1000, 1000), Recognized::ByHashing);
}

/// Runs `test` with a loop device, again when someone else took the device between two images.
fn with_loop(first: &Path, test: impl Fn(&Loop) -> anyhow::Result<()>) {
    let attempt = || test(&Loop::attach(first)?);
    if let Err(error) = attempt().or_else(|_| attempt()).or_else(|_| attempt()) {
        panic!("{error:#}");
    }
}

fn images_in_turn(kind: Kind) {
    if let Some(reason) = image::unavailable(kind) {
        skip!("{reason}");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let images = [1, 2].map(|seed| {
        let name = format!("image-{seed}");
        kind.make(scratch.models(), &name, &content(seed)).unwrap()
    });
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(image::FILE);
    with_loop(&images[0], |device| {
        let mut names = Vec::new();
        for image in &images {
            device.exchange(image)?;
            let _mounted = device.mount(kind, place.path())?;
            let recognized = load(&agent, &path);
            assert_eq!(recognized, Recognized::ByHashing, "{}", image.display());
            assert_eq!(
                load(&agent, &path) == Recognized::ByStat,
                kind == Kind::Ext4
            );
            names.push((identity(&path), system(&path)));
        }
        // Else nothing was tested.
        assert_eq!(names[0].0, names[1].0, "what fstat says");
        if kind == Kind::Ext4 {
            assert_ne!(names[0].1, names[1].1);
        } else {
            assert_eq!((names[0].1, identities(&scratch)), (None, 0));
        }
        for (id, _) in scratch.store().identities()? {
            scratch.store().remove_identity(id)?;
        }
        Ok(())
    });
}

#[test]
fn squashfs_images_with_equal_times_on_one_device_are_two_files() {
    images_in_turn(Kind::Squashfs);
}

#[test]
fn erofs_images_with_equal_times_on_one_device_are_two_files() {
    images_in_turn(Kind::Erofs);
}

#[test]
fn ext4_images_with_equal_times_on_one_device_are_two_files() {
    images_in_turn(Kind::Ext4);
}

#[test]
fn a_ctime_that_was_set_back_over_other_content_is_noticed() {
    if let Some(reason) = image::unavailable(Kind::Ext4) {
        skip!("{reason}");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let image = Kind::Ext4.make(scratch.models(), "image", &content(1));
    let image = image.unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(image::FILE);
    with_loop(&image, |device| {
        let mounted = device.mount(Kind::Ext4, place.path())?;
        File::options()
            .write(true)
            .open(&path)?
            .write_all_at(&content(1), 0)?;
        drop(mounted);
        image::set_times_back(device.device())?;
        let mounted = device.mount(Kind::Ext4, place.path())?;
        let before = key(&path, ManifestKind::Safetensors);
        load(&agent, &path);
        assert_eq!(load(&agent, &path), Recognized::ByStat);
        File::options()
            .write(true)
            .open(&path)?
            .write_all_at(&content(2), 0)?;
        drop(mounted);
        image::set_times_back(device.device())?;
        let _mounted = device.mount(Kind::Ext4, place.path())?;
        // Else nothing was tested.
        assert_eq!(key(&path, ManifestKind::Safetensors), before);
        assert_eq!(load(&agent, &path), Recognized::ByHashing);
        Ok(())
    });
}

#[test]
fn a_tmpfs_with_a_device_number_that_is_used_again_is_another_file_system() {
    if !is_root() {
        skip!("needs root to mount");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let load_from_new = |seed| {
        let mount = Mount::tmpfs("size=64m").unwrap();
        let path = mount.path().join("model.safetensors");
        write(&path, seed);
        load_until_known(&agent, &path);
        (identity(&path), system(&path).unwrap())
    };
    // Others mount at the same time.
    let reused = (0..50).any(|round| {
        let (one, two) = (load_from_new(2 * round), load_from_new(2 * round + 1));
        assert_ne!(one.1, two.1);
        (one.0.dev, one.0.ino) == (two.0.dev, two.0.ino)
    });
    assert!(reused, "no device number was used again");
}

#[test]
fn a_bind_mount_shows_the_same_file_and_another_one_in_its_place_is_another() {
    if !is_root() {
        skip!("needs root to mount");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("own.safetensors");
    let dirs = [1, 2].map(|seed| {
        let dir = tempfile::tempdir_in(scratch.models()).unwrap();
        write(&dir.path().join("own.safetensors"), seed);
        dir
    });
    for dir in &dirs {
        load_until_known(&agent, &dir.path().join("own.safetensors"));
        let _mount = Mount::bind(dir.path(), place.path()).unwrap();
        assert_eq!(load(&agent, &seen), Recognized::ByStat);
    }
}

/// An overlay of one directory, and another for what is written.
fn overlay(lower: &Path, upper: &Path) -> anyhow::Result<Mount> {
    let (changed, work) = (upper.join("changed"), upper.join("work"));
    std::fs::create_dir_all(&changed)?;
    std::fs::create_dir_all(&work)?;
    let [lower, changed, work] = [lower, &changed, &work].map(|path| path.display().to_string());
    // A comma and a colon in a name have their own meaning.
    let escaped = lower.replace(':', "\\:").replace(',', "\\,");
    Mount::overlay(&format!(
        "lowerdir={escaped},upperdir={changed},workdir={work}"
    ))
}

fn overlay_unavailable() -> Option<String> {
    if !is_root() {
        return Some("needs root to mount".to_owned());
    }
    let dir = tempfile::tempdir().ok()?;
    let mount = Mount::tmpfs("size=1m").ok()?;
    overlay(dir.path(), mount.path())
        .err()
        .map(|error| format!("overlayfs cannot be mounted: {error:#}"))
}

#[test]
fn an_overlay_is_trusted_while_all_its_layers_are_seen_to_be_sound() {
    if let Some(reason) = overlay_unavailable() {
        skip!("{reason}");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let (lower, upper) = (Mount::tmpfs("size=64m"), Mount::tmpfs("size=64m"));
    let (lower, upper) = (lower.unwrap(), upper.unwrap());
    let layer = lower.path().join("a layer: of, models");
    std::fs::create_dir(&layer).unwrap();
    write(&layer.join("model.safetensors"), 1);
    let merged = overlay(&layer, upper.path()).unwrap();
    let path = merged.path().join("model.safetensors");
    load_until_known(&agent, &path);

    // The path of the layer leads nowhere now, as that of a container's image does in the container.
    std::fs::rename(&layer, lower.path().join("elsewhere")).unwrap();
    assert_eq!(system(&path), None);
    let before = identities(&scratch);
    assert_eq!(load(&agent, &path), Recognized::ByHashing);
    assert_eq!(load(&agent, &path), Recognized::ByHashing);
    assert_eq!(identities(&scratch), before);
}

fn overlays_of_images_in_turn(kind: Kind) {
    if let Some(reason) = overlay_unavailable().or_else(|| image::unavailable(kind)) {
        skip!("{reason}");
    }
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let images = [1, 2].map(|seed| {
        let name = format!("image-{seed}");
        kind.make(scratch.models(), &name, &content(seed)).unwrap()
    });
    let place = tempfile::tempdir().unwrap();
    with_loop(&images[0], |device| {
        let mut systems = Vec::new();
        for image in &images {
            device.exchange(image)?;
            let _mounted = device.mount(kind, place.path())?;
            let upper = Mount::tmpfs("size=1m")?;
            let merged = overlay(place.path(), upper.path()).context("overlay")?;
            let path = merged.path().join(image::FILE);
            assert_eq!(load(&agent, &path), Recognized::ByHashing);
            assert_eq!(
                load(&agent, &path) == Recognized::ByStat,
                kind == Kind::Ext4
            );
            systems.push(system(&path));
        }
        match kind {
            Kind::Ext4 => assert_ne!(systems[0], systems[1]),
            Kind::Squashfs | Kind::Erofs => assert_eq!(systems, [None, None]),
        }
        for (id, _) in scratch.store().identities()? {
            scratch.store().remove_identity(id)?;
        }
        Ok(())
    });
}

#[test]
fn an_overlay_over_squashfs_images_is_not_trusted() {
    overlays_of_images_in_turn(Kind::Squashfs);
}

#[test]
fn an_overlay_over_erofs_images_is_not_trusted() {
    overlays_of_images_in_turn(Kind::Erofs);
}

#[test]
fn overlays_over_ext4_images_are_two_file_systems() {
    overlays_of_images_in_turn(Kind::Ext4);
}

#[test]
fn a_file_that_is_swapped_within_a_tick_of_the_clock_is_another() {
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let path = scratch.model("own");
    for round in 0..20 {
        write(&path, 2 * round);
        let file = File::options().write(true).open(&path).unwrap();
        let next = content(2 * round + 1);
        let times = std::fs::FileTimes::new().set_modified(modified(&file.metadata().unwrap()));
        load(&agent, &path);
        // The same inode, size and mtime, at once.
        file.write_all_at(&next, 0).unwrap();
        file.set_times(times).unwrap();
        load(&agent, &path);
    }
}

fn modified(metadata: &Metadata) -> std::time::SystemTime {
    metadata.modified().unwrap()
}
