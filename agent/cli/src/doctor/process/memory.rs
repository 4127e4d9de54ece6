//! Memory of a process by its kind: objects of the store, model files of the page cache, and the rest.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetris_store_layout::{ObjectEntry, ObjectRef};
use tetris_units::size::Bytes;

use super::amount;
use super::smaps::Region;
use crate::doctor::check::Check;
use crate::doctor::store::OpenStore;

/// Folder of objects in a store (LAYOUT.md 1).
const OBJECTS: &str = "objects-v1";
/// Endings of model files that programs map.
const MODEL_ENDINGS: [&str; 7] = [
    "safetensors",
    "gguf",
    "bin",
    "pt",
    "pth",
    "onnx",
    "onnx_data",
];
/// Smaller files are configuration and the like.
const MODEL_BYTES: u64 = 1 << 20;

/// Sizes of regions of one kind, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Length of the regions.
    pub(super) mapped: u64,
    /// Mapped pages.
    pub(super) resident: u64,
    /// Pages that the process has written to, and so has for itself.
    pub(super) copied: u64,
    /// Part mapped by 2 MiB pages.
    pub(super) large: u64,
}

/// Memory of a process by its kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Objects of the store that is looked at.
    pub(super) objects: HashMap<ObjectRef, Sizes>,
    /// Objects of other stores: number and sizes.
    pub(super) foreign: (u64, Sizes),
    /// Model files mapped without a store.
    pub(super) files: BTreeMap<PathBuf, Sizes>,
    /// Memory without a file, or written, in bytes: in memory or swapped out.
    pub(super) anonymous: u64,
    /// True if the native part of the Python package is mapped.
    pub(super) has_extension: bool,
    /// The version of the node daemon that gave the package to the process's pod; `None` if its
    /// image has the package.
    pub(super) injected_by: Option<String>,
    /// True if a Python interpreter is mapped as a library.
    pub(super) has_libpython: bool,
}

impl Sizes {
    fn add(&mut self, region: &Region) {
        self.mapped = self.mapped.saturating_add(region.len);
        self.resident = self.resident.saturating_add(region.resident);
        self.copied = self.copied.saturating_add(region.anonymous);
        self.large = self.large.saturating_add(region.large);
    }

    fn plus(mut self, other: Self) -> Self {
        self.mapped = self.mapped.saturating_add(other.mapped);
        self.resident = self.resident.saturating_add(other.resident);
        self.copied = self.copied.saturating_add(other.copied);
        self.large = self.large.saturating_add(other.large);
        self
    }
}

impl Memory {
    /// Sorts regions by their kind. Objects are recognized by device and inode; in the process's mount
    /// namespace their paths may be others.
    pub(super) fn of(regions: &[Region], open: Option<&OpenStore>) -> Self {
        let entries = open.map_or(&[][..], |open| open.objects.as_slice());
        let key = |entry: &ObjectEntry| (entry.device, entry.inode);
        let objects_by_key: HashMap<_, _> = entries
            .iter()
            .map(|entry| (key(entry), entry.object))
            .collect();
        let mut memory = Self::default();
        for region in regions {
            memory.add(
                region,
                objects_by_key.get(&(region.device, region.inode)).copied(),
            );
        }
        memory
    }

    fn add(&mut self, region: &Region, object: Option<ObjectRef>) {
        if let Some(object) = object.filter(|_| region.has_file()) {
            self.objects.entry(object).or_default().add(region);
        } else if is_object(&region.path) {
            self.foreign.0 += 1;
            self.foreign.1.add(region);
        } else {
            let private = region.anonymous.saturating_add(region.swapped);
            self.anonymous = self.anonymous.saturating_add(private);
            if is_extension(&region.path) {
                self.has_extension = true;
                self.injected_by = injected_by(&region.path);
            }
            self.has_libpython |= region.file_name().starts_with("libpython");
            if region.has_file() && region.len >= MODEL_BYTES && is_model(&region.path) {
                self.files
                    .entry(region.path.clone())
                    .or_default()
                    .add(region);
            }
        }
    }

    /// Returns true if an object of any store is mapped.
    pub(super) fn shares(&self) -> bool {
        !self.objects.is_empty() || self.foreign.0 > 0
    }

    /// Sizes of all objects of this store.
    pub(super) fn shared(&self) -> Sizes {
        self.objects
            .values()
            .fold(Sizes::default(), |sum, one| sum.plus(*one))
    }

    /// Sizes of all model files.
    pub(super) fn mapped_files(&self) -> Sizes {
        self.files
            .values()
            .fold(Sizes::default(), |sum, one| sum.plus(*one))
    }

    /// Model files mapped through the page cache.
    pub(super) fn files_check(&self) -> Check {
        let sizes = self.mapped_files();
        let list: Vec<Value> = self.files.iter().map(|(path, sizes)| {
            json!({ "path": path.to_string_lossy(), "mapped_bytes": sizes.mapped, "resident_bytes": sizes.resident })
        }).collect();
        let check = match self.files.iter().next() {
            None => Check::ok("page cache", "no model file is mapped without the store"),
            Some((path, _)) => {
                let more = match self.files.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                Check::note(
                    "page cache",
                    format!(
                        "{} of `{}`{more}: shared only with processes that map these very files",
                        amount(sizes.resident),
                        path.display()
                    ),
                )
            }
        };
        check
            .fact("resident_bytes", sizes.resident)
            .fact("files", list)
    }

    /// Memory of the process alone.
    pub(super) fn anonymous_check(&self) -> Check {
        let found = format!(
            "{} is the process's own: heaps, stacks, and weights that were copied",
            Bytes(self.anonymous)
        );
        Check::ok("private", found).fact("bytes", self.anonymous)
    }
}

/// Returns true for the path of an object, of whatever store.
fn is_object(path: &Path) -> bool {
    let in_folder = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == OBJECTS);
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    in_folder && is_object_name(name)
}

/// `<id>-<crc>` in lowercase hex (LAYOUT.md 2).
fn is_object_name(name: &str) -> bool {
    let hex = |text: &str, len| {
        text.len() == len
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    name.split_once('-')
        .is_some_and(|(id, crc)| hex(id, 64) && hex(crc, 8))
}

fn is_extension(path: &Path) -> bool {
    let in_package = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == "tetris");
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    in_package && name.starts_with("_native.")
}

/// The version in the name of a folder of the node's volume, which is named as wheels are:
/// `tetris_store-0.1.0-cp311-abi3-manylinux_2_17_x86_64/tetris/_native.abi3.so`. An installed
/// package lies in no such folder.
fn injected_by(extension: &Path) -> Option<String> {
    let folder = extension.parent()?.parent()?.file_name()?.to_str()?;
    let mut parts = folder.strip_prefix("tetris_store-")?.split('-');
    let version = parts.next()?;
    let is_version = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+');
    let is_wheel = parts.nth(1) == Some("abi3");
    (is_wheel && version.chars().all(is_version)).then(|| version.to_owned())
}

/// By its ending, or as a blob of a Hugging Face cache.
fn is_model(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let by_ending = ending.is_some_and(|ending| MODEL_ENDINGS.contains(&ending));
    by_ending
        || path
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|name| name == "blobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(path: &str, inode: u64, anonymous: u64) -> Region {
        Region {
            len: 2 << 20,
            device: (0, 1),
            inode,
            path: path.into(),
            resident: 1 << 20,
            anonymous,
            ..Region::default()
        }
    }

    #[test]
    fn memory_is_told_apart_by_its_files() {
        let object = format!("/run/other/objects-v1/{}-0123abcd", "a".repeat(64));
        let memory = Memory::of(
            &[
                region(&object, 5, 4096),
                region("/models/a.safetensors", 6, 0),
                region("/models/a.safetensors", 6, 0),
                region("/cache/blobs/0123", 7, 8192),
                region("/lib/libpython3.12.so.1.0", 8, 4096),
                region("/site-packages/tetris/_native.abi3.so", 9, 0),
                region("[heap]", 0, 1 << 20),
                region("", 0, 1 << 20),
            ],
            None,
        );
        assert!(memory.shares() && memory.objects.is_empty());
        assert_eq!((memory.foreign.0, memory.foreign.1.copied), (1, 4096));
        assert_eq!(memory.files.len(), 2);
        assert_eq!(memory.mapped_files().mapped, 6 << 20);
        assert_eq!(memory.anonymous, (2 << 20) + 8192 + 4096);
        assert!(memory.has_extension && memory.has_libpython);
        assert!(memory.files_check().found.contains("and 1 more"));
    }

    #[test]
    fn a_package_that_the_node_gave_says_of_which_version_its_daemon_was() {
        let by = |folder: &str| {
            let path = format!("/{folder}/tetris/_native.abi3.so");
            Memory::of(&[region(&path, 9, 0)], None).injected_by
        };
        let wheel = "tetris_store-0.1.0-cp311-abi3-manylinux_2_17_x86_64";
        assert_eq!(by(&format!("run/tetris/python/{wheel}")).unwrap(), "0.1.0");
        for folder in [
            "site-packages",
            "tetris_store-0.1.0",
            "tetris_store-\u{1b}[2J-cp311-abi3-x",
        ] {
            assert_eq!(by(folder), None, "{folder}");
        }
    }

    #[test]
    fn only_objects_names_in_the_objects_folder_are_objects() {
        let name = format!("{}-00000000", "0".repeat(64));
        assert!(is_object(Path::new(&format!("/x/objects-v1/{name}"))));
        for path in [
            format!("/x/objects-v2/{name}"),
            format!("/x/objects-v1/{}", name.to_uppercase().replace('0', "A")),
            "/x/objects-v1/a-b".into(),
            name,
            "/".into(),
            String::new(),
        ] {
            assert!(!is_object(Path::new(&path)), "{path}");
        }
    }
}
