//! A wrongly published volume: the bind mount is made read-only after it was attached.

use std::path::Path;

use anyhow::Result;
use nix::mount::{MsFlags, mount};

pub fn run(source: &Path, target: &Path) -> Result<()> {
    let none = None::<&str>;
    mount(Some(source), target, none, MsFlags::MS_BIND, none)?;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, target, none, read_only, none)?;
    Ok(())
}
