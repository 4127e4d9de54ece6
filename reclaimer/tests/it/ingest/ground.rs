//! A store, a read-only view of it for clients, and model files.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use tempfile::TempDir;
use tetris_agent::{CreateOptions, Store, TensorId};
use tetris_sandbox::idmap::IdMap;
use tetris_store_layout::SOCKET_USER;

use tetris_test_support::settled::settle;

pub struct Ground {
    pub dir: TempDir,
    mounts: Vec<PathBuf>,
}

impl Ground {
    /// A store on a tmpfs of `mib`; `None` for who may not mount, which is said.
    pub fn new(mib: u32) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            let test = std::thread::current();
            let test = test.name().unwrap_or("test").to_owned();
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: needs root to mount");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (store, view) = (dir.path().join("store"), dir.path().join("view"));
        for folder in [&store, &view] {
            std::fs::create_dir(folder).unwrap();
        }
        let size = format!("size={mib}m,mode=0755");
        let (source, kind) = (Some("tetris-test"), Some("tmpfs"));
        let flags = MsFlags::empty();
        mount(source, &store, kind, flags, Some(size.as_str())).unwrap();
        Store::create(&store, &CreateOptions::default()).unwrap();
        mount(Some(&store), &view, none, MsFlags::MS_BIND, none).unwrap();
        let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, &view, none, read_only, none).unwrap();
        Some(Self {
            dir,
            mounts: vec![view, store],
        })
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The store as a container sees it.
    pub fn view(&self) -> PathBuf {
        self.dir.path().join("view")
    }

    /// The store as a pod of the trust domain `number` sees it; `None` where the kernel maps no ids
    /// of a tmpfs, which is said.
    pub fn pod_view(&self, name: &str, number: u32) -> Option<PathBuf> {
        let place = self.dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, self.view(), flags).unwrap();
        let map = IdMap::of_one_with_group(SOCKET_USER, 0, number).unwrap();
        if let Err(error) = map.apply(&tree) {
            let _ = writeln!(std::io::stderr(), "SKIPPED: trust domains: {error}");
            return None;
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", CWD, &place, flags).unwrap();
        Some(place)
    }

    /// A file of one tensor, identified by its seed.
    pub fn model(&self, name: &str, len: usize, seed: u8) -> PathBuf {
        self.file(name, &safetensors(len, seed))
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        settle(&path);
        path
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        std::fs::read_dir(objects_dir(&self.store()))
            .unwrap()
            .count()
    }

    /// Nothing is in the store that a load of the whole would not find to be true.
    pub fn is_sound(&self) -> bool {
        std::fs::read_dir(objects_dir(&self.store()))
            .unwrap()
            .all(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let id = TensorId::of(&std::fs::read(entry.path()).unwrap());
                name.starts_with(&id.to_string())
            })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for mount in &self.mounts {
            let _ = umount2(mount, MntFlags::MNT_DETACH);
        }
    }
}

fn objects_dir(store: &Path) -> PathBuf {
    Store::open(store).unwrap().objects_dir()
}

pub fn tensor(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
}

pub fn safetensors(len: usize, seed: u8) -> Vec<u8> {
    of_tensors(&[("w", tensor(len, seed))])
}

/// A file of these tensors.
pub fn of_tensors(tensors: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut end = 0;
    let entries = tensors.iter().map(|(name, bytes)| {
        let (begin, len) = (end, bytes.len());
        end += len;
        format!(r#""{name}":{{"dtype":"U8","shape":[{len}],"data_offsets":[{begin},{end}]}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for (_, bytes) in tensors {
        file.extend(bytes);
    }
    file
}
