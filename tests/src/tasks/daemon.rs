//! The node's daemon in a process that can be killed.

use std::path::Path;

use nix::sys::signal::{Signal, raise};
use tetris_node::config::ConfigFlags;

use super::{answer, listen};
use crate::process::wait_for_parent;
use crate::torture::{EventLog, What};

pub(super) fn run(config: &Path, events: &Path) -> anyhow::Result<()> {
    listen::start(EventLog::open(events)?)?;
    // The parent may be killed as well.
    std::thread::spawn(|| {
        let _ = wait_for_parent();
        let _ = raise(Signal::SIGTERM);
    });
    let flags = ConfigFlags {
        config: Some(config.to_owned()),
        ..ConfigFlags::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()?;
    let done = runtime.block_on(tetris_node::daemon::run(&flags, false));
    if let Err(error) = &done {
        let what = What::Failed(format!("the daemon: {error:#}"));
        EventLog::open(events)?.append(what, 0)?;
    }
    done?;
    answer(&())
}
