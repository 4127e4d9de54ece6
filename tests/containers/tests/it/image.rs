//! Images from nothing but a program and the libraries that it names, made without a network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::docker::{disk, docker, try_docker, unique};

/// Folder of programs in images.
pub const NODE: &str = "/bin/tetris-node";
pub const POD: &str = "/bin/pod";

/// The image of the node's container and of pods, while a test uses it.
pub struct Image {
    pub name: String,
}

/// The image; made once for tests that run at a time.
pub fn image() -> Arc<Image> {
    static MADE: Mutex<Weak<Image>> = Mutex::new(Weak::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.upgrade().unwrap_or_else(|| {
        let image = Arc::new(Image::make());
        *made = Arc::downgrade(&image);
        image
    })
}

impl Image {
    fn make() -> Self {
        let dir = disk();
        let root = dir.path().join("root");
        for folder in [
            "bin",
            "tmp",
            "proc",
            "dev",
            "sys",
            "etc",
            "run/tetris/store",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let programs = [
            (env!("CARGO_BIN_EXE_tetris-container-node"), NODE),
            (env!("CARGO_BIN_EXE_tetris-container-pod"), POD),
        ];
        for (from, to) in programs {
            install(Path::new(from), &below(&root, Path::new(to)));
        }
        let needed = programs.iter().flat_map(|(from, _)| libraries(from));
        for library in needed.collect::<BTreeSet<_>>() {
            let to = below(&root, &library);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&library, &to).unwrap();
        }
        let tar = dir.path().join("image.tar");
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&tar).arg("-C").arg(&root).arg(".");
        assert!(pack.status().unwrap().success());
        let name = unique("image");
        docker(&["import", tar.to_str().unwrap(), &name]);
        Self { name }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _gone = try_docker(&["rmi", "--force", &self.name]);
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap())
}

/// Copies a program without what debuggers want, where that can be left out: each container takes a copy of the image.
fn install(from: &Path, to: &Path) {
    let stripped = Command::new("strip").arg("-o").args([to, from]).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(from, to).unwrap();
    }
}

/// Files that the dynamic linker loads with a program; none for a static one.
fn libraries(program: &str) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let paths = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}
