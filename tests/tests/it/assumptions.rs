//! Assumptions of LAYOUT.md section 9 about tmpfs and the kernel.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use memmap_of::{mapped_lines, smaps_field};
use tetris_store_layout::{Access, Holders, ObjectRef, Reclaimed, Store};
use tetris_tests::model::bytes;
use tetris_tests::mount::Mount;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip;
use tetris_tests::skip::is_root;

const HUGE: usize = 2 << 20;
/// Looks at a count that other tests disturb.
const LOOKS: usize = 1_000;

/// Descriptors of this process that are open on `path`.
fn descriptors_on(path: &Path) -> usize {
    let target = std::fs::metadata(path).unwrap();
    let same = |link: &Path| {
        std::fs::metadata(link).is_ok_and(|m| (m.dev(), m.ino()) == (target.dev(), target.ino()))
    };
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries
        .flatten()
        .filter(|entry| same(&entry.path()))
        .count()
}

/// Requires that an object has `expected` holders. The kernel hands `/proc/locks` out in pages, so while
/// other tests lock and unlock, one look may miss a holder or count it twice: it is looked again.
fn require_holders(store: &Store, object: &ObjectRef, expected: u64) {
    let listing = store.objects().unwrap().objects;
    let entry = listing
        .iter()
        .find(|entry| entry.object == *object)
        .unwrap();
    let found = (0..LOOKS).map(|_| Holders::read().unwrap().of(entry));
    let until_expected: Vec<u64> = found.take_while(|&found| found != expected).collect();
    assert!(
        until_expected.len() < LOOKS,
        "{expected} expected, found {until_expected:?}"
    );
}

/// The reference is the mapping, nothing else: no descriptor stays open, and yet the kernel has the
/// lock, until the mapping goes.
fn require_that_mappings_keep_locks(owner: &Store, reader: &Store, len: usize) {
    let object = owner
        .publish(&bytes(9, len), Access::ReadOnly)
        .unwrap()
        .object;
    let _quiet = tetris_tests::process::quiet();
    for access in [Access::ReadOnly, Access::CopyOnWrite] {
        let mapping = reader.map(&object, access).unwrap().unwrap();
        assert_eq!(descriptors_on(&owner.object_path(&object)), 0);
        require_holders(owner, &object, 1);
        assert_eq!(owner.reclaim(&object).unwrap(), Reclaimed::Referenced);
        let second = reader.map(&object, access).unwrap().unwrap();
        drop(mapping);
        require_holders(owner, &object, 1);
        assert_eq!(owner.reclaim(&object).unwrap(), Reclaimed::Referenced);
        drop(second);
        require_holders(owner, &object, 0);
    }
    assert!(matches!(
        owner.reclaim(&object).unwrap(),
        Reclaimed::Freed { .. }
    ));
}

#[test]
fn mappings_keep_locks_with_small_pages() {
    let scratch = Scratch::new().unwrap();
    require_that_mappings_keep_locks(scratch.store(), scratch.store(), 10_000);
}

#[test]
fn mappings_keep_locks_with_large_pages_and_through_a_read_only_mount() {
    if !is_root() {
        skip!("needs root to mount a tmpfs with large pages");
    }
    for options in ["size=64m,huge=never", "size=64m,huge=within_size"] {
        let scratch = Scratch::mounted(options).unwrap();
        let len = 2 * HUGE + 5;
        require_that_mappings_keep_locks(scratch.store(), scratch.store(), len);
        let mount = Mount::read_only(scratch.root()).unwrap();
        let reader = Store::open(mount.path()).unwrap();
        assert!(!reader.is_writable());
        require_that_mappings_keep_locks(scratch.store(), &reader, len);
    }
}

#[test]
fn large_objects_are_mapped_aligned_and_by_large_pages() {
    if !is_root() {
        skip!("needs root to mount a tmpfs with large pages");
    }
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if !policy.is_ok_and(|policy| !policy.contains("[deny]")) {
        skip!("this kernel has no large pages for tmpfs");
    }
    let scratch = Scratch::mounted("size=128m,huge=within_size").unwrap();
    for (len, access) in [
        (HUGE, Access::ReadOnly),
        (5 * HUGE, Access::ReadOnly),
        (5 * HUGE, Access::CopyOnWrite),
        (4 * HUGE + 12_345, Access::ReadOnly),
    ] {
        let object = scratch
            .store()
            .publish(&bytes(len as u64, len), access)
            .unwrap();
        let address = object.mapping.as_ptr().addr();
        assert_eq!(address % HUGE, 0, "{len} bytes at {address:#x}");
        object.mapping.prefault();
        let lines = mapped_lines(address).unwrap();
        let huge = smaps_field(&lines, "ShmemPmdMapped:").unwrap();
        let whole = (len / HUGE * HUGE) as u64;
        assert_eq!(huge, whole, "{len} bytes, {access:?}\n{}", lines.join("\n"));
    }
}

#[test]
fn a_write_lock_needs_a_writable_descriptor() {
    let scratch = Scratch::new().unwrap();
    let object = scratch
        .store()
        .publish(b"x", Access::ReadOnly)
        .unwrap()
        .object;
    let path = scratch.store().object_path(&object);
    let reader = File::open(&path).unwrap();
    assert_eq!(try_write_lock(&reader), Err(nix::errno::Errno::EBADF));
    if is_root() {
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(try_write_lock(&writer), Ok(()));
    }
}

fn try_write_lock(file: &File) -> nix::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
}

/// Report of the kernel about one mapping of this process.
mod memmap_of {
    /// The lines of /proc/self/smaps for the mapping at `address`.
    pub fn mapped_lines(address: usize) -> Option<Vec<String>> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let is_head = |line: &&str| {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            range.is_some_and(|(from, _)| usize::from_str_radix(from, 16).is_ok())
        };
        let start = format!("{address:x}-");
        let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let head = lines.next()?;
        let body = lines.take_while(|line| !is_head(line));
        Some(
            std::iter::once(head)
                .chain(body)
                .map(str::to_owned)
                .collect(),
        )
    }

    /// The value of a field in bytes.
    pub fn smaps_field(lines: &[String], field: &str) -> Option<u64> {
        let value = lines.iter().find_map(|line| line.strip_prefix(field))?;
        let kib: u64 = value.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kib * 1024)
    }
}
