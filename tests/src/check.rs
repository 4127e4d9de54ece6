//! Checks of a whole store.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tetris_agent::gc::{GcOptions, GcReport, collect};
use tetris_store_layout::{
    RECLAIMER_READING, RECLAIMER_STATE, Store, Usage, Verified, VerifyDepth,
};

use crate::process::quiet;

/// Folders of a store (LAYOUT.md 1).
const FOLDERS: [&str; 6] = [
    "objects-v1",
    "manifests-v1",
    "identities-v1",
    "derived-v1",
    "quarantine-v1",
    HINTS,
];
/// The folder of hints at models' paths, each of which belongs to a manifest.
const HINTS: &str = "paths-v1";

/// Checks that whatever has a name is complete and true: every object, every record (INV-1, INV-5,
/// INV-7). Holds at any moment, while other processes work on the store.
pub fn require_sound(store: &Store) -> anyhow::Result<()> {
    let listing = store.objects()?;
    ensure!(listing.foreign.is_empty(), "foreign: {:?}", listing.foreign);
    for entry in &listing.objects {
        let name = entry.object.file_name();
        let path = store.object_path(&entry.object);
        let verdict = store.verify(&entry.object, VerifyDepth::Full)?;
        let sound = matches!(verdict, Verified::Absent | Verified::Sound);
        ensure!(sound, "INV-1: {name}: {verdict:?}");
        if let Ok(metadata) = std::fs::metadata(&path) {
            let mode = metadata.mode() & 0o7777;
            ensure!(mode & 0o022 == 0, "{name} has mode {mode:o}");
        }
    }
    let quarantined = store.quarantined()?.objects;
    ensure!(quarantined.is_empty(), "quarantined: {quarantined:?}");
    for record in store.manifests()? {
        store.manifest(record.id).context("INV-7")?;
    }
    for record in store.derived_records()? {
        store.derived_record(record.id)?;
    }
    for (id, bound) in store.identities()? {
        bound.with_context(|| format!("identity {id}"))?;
    }
    Ok(())
}

/// Checks a store that no one works on: as [`require_sound`], and no file is without a valid name,
/// nor anything allocated that has no name (INV-5).
pub fn require_tidy(store: &Store, empty: Option<Usage>) -> anyhow::Result<()> {
    let _quiet = quiet();
    require_sound(store)?;
    let names: usize = store.objects()?.objects.len()
        + store.manifests()?.len()
        + store.derived_records()?.len()
        + store.identities()?.len();
    let mut files = files(store)?;
    let hints = files.iter().filter(|file| {
        let folder = file.parent().and_then(Path::file_name);
        folder.is_some_and(|folder| folder == HINTS)
    });
    let names = names + hints.count();
    ensure!(
        files.len() == names,
        "{names} valid names, files: {files:?}"
    );
    let Some(empty) = empty else { return Ok(()) };
    files.extend(files_of_daemon(store));
    let mut allocated = 0;
    for file in &files {
        allocated += std::fs::symlink_metadata(file)?.blocks() * 512;
    }
    let usage = store.usage()?;
    let used = empty.free - usage.free;
    ensure!(
        used == allocated,
        "INV-5: {used} bytes used, {allocated} named"
    );
    let inodes = empty.inodes_free - usage.inodes_free;
    ensure!(
        inodes == files.len() as u64,
        "INV-5: {inodes} inodes, {} named",
        files.len()
    );
    Ok(())
}

/// Collects everything, checks that nothing is left (INV-4), and returns what was collected.
pub fn require_reclaimable(store: &Store, empty: Option<Usage>) -> anyhow::Result<GcReport> {
    let _quiet = quiet();
    let report = collect(store, &GcOptions::default())?;
    let files = files(store)?;
    ensure!(files.is_empty(), "INV-4: left over: {files:?}, {report:?}");
    if let Some(empty) = empty {
        let usage = store.usage()?;
        ensure!(usage == empty, "INV-5: {usage:?}, when empty {empty:?}");
    }
    Ok(report)
}

/// Files of the node daemon in the store's root: its socket, its learned state, and its mark (LAYOUT.md 1). One that is
/// killed leaves them.
pub fn files_of_daemon(store: &Store) -> Vec<PathBuf> {
    let socket = store.daemon_socket();
    let state = store.root().join(RECLAIMER_STATE);
    let new = |path: &Path| path.with_added_extension("new");
    let mark = store.root().join(RECLAIMER_READING);
    let mut files = vec![new(&socket), new(&state), socket, state, mark];
    files.retain(|file| file.symlink_metadata().is_ok());
    files
}

/// All files in the store's folders.
pub fn files(store: &Store) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(store.root().join(folder))? {
            files.push(entry?.path());
        }
    }
    Ok(files)
}
