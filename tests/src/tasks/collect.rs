//! A process that collects, again and again.

use std::path::Path;
use std::sync::mpsc::TryRecvError;

use tetris_agent::gc::{GcOptions, collect};
use tetris_store_layout::Store;

use super::answer;
use crate::process::lines_of_parent;
use crate::torture::{EventLog, What};

pub(super) fn run(store: &Path, events: &Path) -> anyhow::Result<()> {
    let log = EventLog::open(events)?;
    let done = until_told(store, &log);
    if let Err(error) = &done {
        log.append(What::Failed(format!("a collector: {error:#}")), 0)?;
    }
    done
}

fn until_told(store: &Path, log: &EventLog) -> anyhow::Result<()> {
    let lines = lines_of_parent();
    let store = Store::open(store)?;
    while lines.try_recv() != Err(TryRecvError::Disconnected) {
        let report = collect(&store, &GcOptions::default())?;
        anyhow::ensure!(report.failed_objects == 0, "{report:?}");
        log.append(What::Collected, report.freed_bytes)?;
        // Others are to get something into the store.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    answer(&())
}
