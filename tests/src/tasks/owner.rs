//! The owner of a store without capabilities, who cannot simply open a file of mode 0444 for writing.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tetris_store_layout::{Access, CreateOptions, Reclaimed, Store};

use super::answer;
use crate::pool::Held;
use crate::process::ready_and_wait;
use crate::task::OwnerReport;

pub(super) fn run(root: &Path) -> anyhow::Result<()> {
    let store = Store::create(root, &CreateOptions::default())?;
    let published = store.publish(b"weights", Access::ReadOnly)?;
    let object = published.object;
    let path = store.object_path(&object);
    let mode = || anyhow::Ok(std::fs::metadata(&path)?.mode() & 0o7777);
    let busy_stayed = store.reclaim(&object)? == Reclaimed::Referenced;
    let mode_after_busy = mode()?;
    // As a reclaimer leaves it that dies in R1.
    std::fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    let busy_again = store.reclaim(&object)? == Reclaimed::Referenced;
    let mode_after_crash = mode()?;
    drop(published);
    let freed = matches!(store.reclaim(&object)?, Reclaimed::Freed { .. });
    answer(&OwnerReport {
        busy_stayed: busy_stayed && busy_again,
        mode_after_busy,
        mode_after_crash,
        freed,
    })
}

pub(super) fn contend(root: &Path, rounds: u64) -> anyhow::Result<()> {
    let store = Store::create(root, &CreateOptions::default())?;
    ready_and_wait()?;
    for _ in 0..rounds {
        let published = Held::from(store.publish(b"contended", Access::ReadOnly)?);
        let object = published.object;
        published.check(&store)?;
        drop(published);
        store.reclaim(&object)?;
    }
    answer(&())
}
