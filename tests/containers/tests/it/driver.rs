//! The image of the daemon for GPUs, as `deploy/images` makes it: it runs, and loads the driver mounted into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::docker::{Container, disk, docker, missing, try_docker, unique};
use crate::wait::until;
use tetris_test_support::skipped::skipped;

/// The daemon of these tests, which is linked as that of the image is.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tetris-container-node");
const CONFIG: &str =
    "[[stores]]\nname = \"a\"\npath = \"/store\"\n[gpu_mirror]\ndevice_bytes = 2097152\n";

struct Image {
    name: String,
    folder: TempDir,
}

impl Image {
    fn build() -> Self {
        let folder = disk();
        let context = folder.path().join("context");
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/images");
        fs::create_dir(&context).unwrap();
        let libraries = Command::new(images.join("libraries"))
            .arg(PROGRAM)
            .arg(context.join("root"))
            .status();
        assert!(libraries.unwrap().success());
        fs::copy(PROGRAM, context.join("tetris-node")).unwrap();
        let file = images.join("prebuilt-dynamic.Dockerfile");
        let image = Self {
            name: unique("gpu-image"),
            folder,
        };
        let arguments = ["BINARY=tetris-node", "USER=0:0"];
        docker(&[
            "build",
            "--quiet",
            "--file",
            file.to_str().unwrap(),
            "--build-arg",
            arguments[0],
            "--build-arg",
            arguments[1],
            "--tag",
            &image.name,
            context.to_str().unwrap(),
        ]);
        image
    }

    /// The daemon's message about the mirror in a container with these mounts.
    fn says(&self, mounts: &[(PathBuf, &str)]) -> String {
        let config = self.folder.path().join("node.toml");
        fs::write(&config, CONFIG).unwrap();
        let all = mounts.iter().cloned().chain([(config, "/node.toml")]);
        let bind = |(from, to): (PathBuf, &str)| format!("--volume={}:{to}:ro", from.display());
        let mut options: Vec<_> = all.map(bind).collect();
        options.push("--read-only".to_owned());
        let command = ["tetris-node", "run", "--config", "/node.toml"];
        let container = Container::start("gpu-node", &self.name, &options, &command);
        until("it says what there is of a driver", || {
            let log = container.stderr();
            let line = log.lines().find(|line| line.contains("no GPU mirror"));
            line.map(str::to_owned)
        })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _gone = try_docker(&["rmi", "--force", &self.name]);
    }
}

/// A library that has the driver's name, and nothing in it.
fn empty_driver(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libcuda.so.1");
    let source = folder.join("empty.c");
    fs::write(&source, "int tetris_test_driver;\n").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]);
    let built = compiler.arg(&library).arg(&source).status();
    built
        .is_ok_and(|status| status.success())
        .then_some(library)
}

#[test]
fn the_image_for_gpus_loads_the_driver_that_is_mounted_into_it() {
    if let Some(reason) = missing() {
        return skipped(&reason);
    }
    let image = Image::build();
    let without = image.says(&[]);
    assert!(
        without.contains("expected libcuda.so.1, found none that can be loaded"),
        "{without}"
    );
    let Some(driver) = empty_driver(image.folder.path()) else {
        return skipped("no C compiler (cc) to build a library with the driver's name");
    };
    // Where NVIDIA's runtime puts it in images of Debian, and in others.
    for place in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"] {
        let to = format!("{place}/libcuda.so.1");
        let with = image.says(&[(driver.clone(), to.as_str())]);
        // It was loaded, and its first function looked for.
        assert!(with.contains("it has no cuInit"), "{place}: {with}");
    }
}
