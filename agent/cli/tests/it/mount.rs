//! `mount`: what other programs see of a pulled model, and how a mount ends.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tetris_test_support::json_schema::assert_fits;

use crate::site::{Background, Site, eventually, skipped, walk};

/// A store with a pulled folder, and a directory for the mount.
struct Folder {
    site: Site,
    source: PathBuf,
    mount_point: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let site = Site::new();
        let source = site.model_folder();
        let mount_point = site.dir().join("mnt");
        std::fs::create_dir(&mount_point).unwrap();
        site.json(&["pull", source.to_str().unwrap(), "--include", "*"]);
        Self {
            site,
            source,
            mount_point,
        }
    }

    /// Mounts the folder, and returns the command with what it has printed.
    fn mount(&self, options: &[&str]) -> (Background, Value) {
        let mut command = self.site.command(&["mount", "--format", "json"]);
        command
            .args(options)
            .arg(&self.source)
            .arg(&self.mount_point);
        let mut mount = Background::start(command.stderr(Stdio::null()));
        let document: Value = serde_json::from_str(&mount.line()).unwrap();
        assert_fits(&document);
        (mount, document)
    }

    fn file(&self, path: &str) -> PathBuf {
        self.mount_point.join(path)
    }

    /// The options of the mount; `None` when it is gone.
    fn options(&self) -> Option<String> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let of_folder = |line: &&str| line.split(' ').nth(1) == self.mount_point.to_str();
        let line = mounts.lines().find(of_folder)?;
        Some(line.split(' ').nth(3)?.to_owned())
    }

    #[track_caller]
    fn assert_ended(&self, mount: &mut Background) {
        assert!(mount.finish().success());
        assert_eq!(self.options(), None);
        assert_eq!(std::fs::read_dir(&self.mount_point).unwrap().count(), 0);
    }
}

impl Drop for Folder {
    /// A killed command leaves its mount.
    fn drop(&mut self) {
        if self.options().is_some() {
            let flags = nix::mount::MntFlags::MNT_DETACH;
            let _gone = nix::mount::umount2(&self.mount_point, flags);
        }
    }
}

/// Returns true if this process can mount; reports otherwise that a test is left out.
fn can_mount() -> bool {
    let can = nix::unistd::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        skipped("mounting needs root and /dev/fuse");
    }
    can
}

#[test]
fn any_program_reads_the_files_of_a_mounted_model() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let (mut mount, document) = folder.mount(&[]);
    assert_eq!(document["files"], 4);
    assert_eq!(walk(&folder.mount_point), walk(&folder.source));
    for path in walk(&folder.source) {
        let expected = std::fs::read(folder.source.join(&path)).unwrap();
        let mounted = folder.mount_point.join(&path);
        assert!(std::fs::read(&mounted).unwrap() == expected, "{path:?}");
        assert_eq!(
            std::fs::metadata(&mounted).unwrap().len(),
            expected.len() as u64
        );
        let mut file = File::open(&mounted).unwrap();
        let middle = expected.len() / 2;
        file.seek(SeekFrom::Start(middle as u64)).unwrap();
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert!(rest == expected[middle..], "{path:?}");
    }
    for failed in [
        std::fs::write(folder.file("config.json"), "x").unwrap_err(),
        std::fs::write(folder.file("new"), "x").unwrap_err(),
        std::fs::remove_file(folder.file("config.json")).unwrap_err(),
    ] {
        assert_eq!(failed.kind(), ErrorKind::ReadOnlyFilesystem);
    }
    let missing = std::fs::read(folder.file("config.json/x")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotADirectory);
    assert!(!folder.options().unwrap().contains("allow_other"));
    mount.signal(Signal::SIGTERM);
    folder.assert_ended(&mut mount);
}

#[test]
fn loads_of_a_mounted_model_map_its_tensors_and_read_none() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let (mut mount, _) = folder.mount(&[]);
    let model = folder.file("model.safetensors");
    let loaded = &folder.site.load(&model)["models"][0];
    assert_eq!(loaded["recognized"][0], "sidecar", "{loaded}");
    for none in ["bytes_new", "bytes_private", "bytes_read"] {
        assert_eq!(loaded[none], 0, "{none}: {loaded}");
    }
    // Another store takes the file's bytes from the mount, and the model is the same.
    let other = Site::new();
    let there = &other.load(&model)["models"][0];
    assert_eq!(there["bytes_new"], there["bytes_total"], "{there}");
    assert_eq!(
        there["manifests"][0]["manifest"],
        loaded["manifests"][0]["manifest"]
    );
    nix::mount::umount2(&folder.mount_point, nix::mount::MntFlags::empty()).unwrap();
    folder.assert_ended(&mut mount);
}

#[test]
fn a_mounted_model_stays_in_the_store() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let (mut mount, _) = folder.mount(&[]);
    folder.site.run(&["gc"]).expect(0);
    let expected = std::fs::read(folder.source.join("model.safetensors")).unwrap();
    assert!(std::fs::read(folder.file("model.safetensors")).unwrap() == expected);
    mount.signal(Signal::SIGTERM);
    folder.assert_ended(&mut mount);
    folder.site.run(&["gc"]).expect(0);
    assert_eq!(folder.site.json(&["stat"])["objects"], 0);
}

#[test]
fn files_that_are_open_are_read_to_their_end_after_ctrl_c() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let (mut mount, _) = folder.mount(&["--allow-other"]);
    assert!(folder.options().unwrap().contains("allow_other"));
    let mut open = File::open(folder.file("model.safetensors")).unwrap();
    mount.signal(Signal::SIGTERM);
    eventually("it is unmounted", || folder.options().is_none());
    let mut read = Vec::new();
    open.read_to_end(&mut read).unwrap();
    let expected = std::fs::read(folder.source.join("model.safetensors")).unwrap();
    assert!(read == expected);
    assert!(mount.child.try_wait().unwrap().is_none());
    drop(open);
    folder.assert_ended(&mut mount);

    // A second signal does not wait.
    let (mut mount, _) = folder.mount(&[]);
    let open = File::open(folder.file("model.safetensors")).unwrap();
    mount.signal(Signal::SIGTERM);
    eventually("it is unmounted", || folder.options().is_none());
    mount.signal(Signal::SIGTERM);
    assert!(!mount.finish().success());
    drop(open);
}

#[test]
fn copies_of_the_mount_in_other_namespaces_do_not_keep_the_command() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let (mut mount, _) = folder.mount(&[]);
    let mut other = Command::new("unshare");
    let other = other.args(["--mount", "--propagation", "private", "sh", "-c"]);
    let mut other = Background::start(other.arg("echo there; cat"));
    assert_eq!(other.line(), "there");
    mount.signal(Signal::SIGTERM);
    folder.assert_ended(&mut mount);
    assert!(other.finish().success());
}

#[test]
fn a_model_or_a_directory_that_is_not_there_is_an_error_with_the_next_step() {
    let folder = Folder::new();
    let mount = |source: &str, path: &Path| {
        let path = path.to_str().unwrap();
        folder.site.run(&["mount", source, path])
    };
    let unknown = mount("hf://org/unknown", &folder.mount_point).expect(4);
    let remedy = "pull it first: tetris pull hf://org/unknown@main";
    assert!(unknown.stderr.contains(remedy), "{unknown:?}");
    let source = folder.source.to_str().unwrap();
    let missing = mount(source, &folder.site.dir().join("missing")).expect(1);
    assert!(
        missing.stderr.contains("make the directory first"),
        "{missing:?}"
    );
    mount("ftp://x", &folder.mount_point).expect(2);
}
