//! Files that have the identity of others: neither client nor daemon takes one for the other
//! (INV-11).

use std::io::Write;
use std::process::Command;

use tetris_agent::{LoadOptions, ManifestKind, Recognized, Store};
use tetris_store_layout::{FileIdentity, FileSystem, IdentityBy, IdentityKey};
use tetris_wire::daemon::Message;

use crate::ingest::ground::{safetensors, tensor};
use crate::ingest::harness::{Site, eventually, open};

const LEN: usize = 2 << 20;

/// Two files, and the identity of the first bound to the content of the second.
fn mistaken(site: &Site, kind: ManifestKind) -> (std::path::PathBuf, IdentityKey) {
    let path = site.model("own.safetensors", LEN, 3);
    let other = site.model("other.safetensors", LEN, 4);
    let Message::Ingested { manifest, .. } = site.pass(open(&other), kind) else {
        panic!("not taken");
    };
    let file = open(&path);
    let identity = FileIdentity::of(&file.metadata().unwrap());
    let by = IdentityBy::Stat {
        file: identity,
        system: FileSystem::of(&file, &identity).unwrap(),
    };
    let key = IdentityKey { kind, by };
    let store = Store::open(site.store()).unwrap();
    store.bind(&key, manifest).unwrap();
    (path, key)
}

#[test]
fn a_client_of_a_file_that_was_taken_for_another_gets_its_own_tensors() {
    let Some(site) = Site::plain() else { return };
    let (path, key) = mistaken(&site, ManifestKind::Safetensors);
    let wrong = Store::open(site.store()).unwrap().look_up(&key).unwrap();
    let model = site.agent().load(&path).unwrap();
    assert_eq!(model.tensor("w").unwrap().bytes(), tensor(LEN, 3));
    let report = model.report();
    assert_eq!(report.recognized, [Recognized::Brokered], "{report:?}");
    assert_eq!(report.bytes_private, 0);
    let now = Store::open(site.store()).unwrap().look_up(&key).unwrap();
    assert_ne!(now, wrong);
}

#[test]
fn the_daemon_compares_what_it_is_passed_and_reads_it_again() {
    let Some(site) = Site::plain() else { return };
    let (path, key) = mistaken(&site, ManifestKind::File);
    let wrong = Store::open(site.store()).unwrap().look_up(&key).unwrap();
    let Message::Ingested {
        manifest,
        bytes_read,
    } = site.pass(open(&path), ManifestKind::File)
    else {
        panic!("not taken");
    };
    assert_ne!(Some(manifest), wrong);
    assert_eq!(bytes_read, path.metadata().unwrap().len());
    let whole = site.agent().share_file(&path, &LoadOptions::default());
    assert_eq!(whole.unwrap().bytes().unwrap(), safetensors(LEN, 3));
}

#[test]
fn images_with_equal_times_that_are_passed_in_turn_are_two_files() {
    let Some(site) = Site::plain() else { return };
    let skip = |reason: &str| {
        let _ = writeln!(std::io::stderr(), "SKIPPED: images in turn: {reason}");
    };
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output();
        done.ok().filter(|done| done.status.success()).map(|done| {
            let text = String::from_utf8(done.stdout).unwrap();
            text.trim().to_owned()
        })
    };
    let dir = site.dir.path();
    let place = dir.join("image");
    std::fs::create_dir(&place).unwrap();
    let place = place.to_str().unwrap();
    let mut images = Vec::new();
    for seed in [3, 4] {
        let (tree, image) = (
            dir.join(format!("tree-{seed}")),
            dir.join(format!("image-{seed}")),
        );
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("m.safetensors"), safetensors(LEN, seed)).unwrap();
        let image = image.to_str().unwrap().to_owned();
        let times = [
            "-all-time",
            "0",
            "-mkfs-time",
            "0",
            "-noappend",
            "-no-progress",
        ];
        let mut arguments = vec![tree.to_str().unwrap(), &image];
        arguments.extend(times);
        if run("mksquashfs", &arguments).is_none() {
            return skip("needs mksquashfs (tests/tools.sh)");
        }
        images.push((seed, image));
    }
    let Some(device) = run("losetup", &["--find", "--show", &images[0].1]) else {
        return skip("there are no loop devices here");
    };
    let detach = || run("losetup", &["--detach", &device]);
    let mut models = Vec::new();
    for (seed, image) in &images {
        detach().unwrap();
        run("losetup", &[&device, image]).unwrap();
        if run("mount", &["-t", "squashfs", "-o", "ro", &device, place]).is_none() {
            detach().unwrap();
            return skip("squashfs cannot be mounted here");
        }
        let path = std::path::Path::new(place).join("m.safetensors");
        let model = site.agent().load(&path);
        models.push(FileIdentity::of(&path.metadata().unwrap()));
        // The daemon closes a client's file aside, a moment after its answer.
        eventually("the image is let go of", || {
            run("umount", &[place]).is_some()
        });
        let model = model.unwrap();
        assert_eq!(model.tensor("w").unwrap().bytes(), tensor(LEN, *seed));
    }
    detach().unwrap();
    // Else nothing was tested.
    assert_eq!(models[0], models[1]);
    let identities = Store::open(site.store()).unwrap().identities();
    assert_eq!(identities.unwrap().len(), 0);
}
