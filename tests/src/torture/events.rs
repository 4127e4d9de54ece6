//! Events, as lines of one file to which all processes append: those of a killed process count.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// A model was loaded; all of it was in the store.
    LoadAttached,
    /// A model was loaded and published, at least in part.
    LoadPublished,
    /// A model was loaded; at least a part is private.
    LoadPrivate,
    /// The same, because the daemon made no room.
    LoadRefused,
    /// A model was mapped copy-on-write and written over.
    Scribbled,
    /// A tensor was derived from another; what came of it.
    Derived(String),
    /// Every byte and every name that a process holds was checked; bytes are those that were read.
    Checked,
    /// A model, file or derived tensor was dropped.
    Dropped,
    /// A process collected by itself.
    Collected,
    /// The daemon answered an agent that there is room.
    RoomMade,
    /// The daemon answered an agent that there is none.
    RoomRefused,
    /// An agent got no answer from a daemon that was there.
    RoomUnanswered,
    /// A load found fewer than 64 KiB free, or room for no further file.
    FullOfBytes,
    /// See [`What::FullOfBytes`].
    FullOfFiles,
    /// The daemon freed an object, for this reason.
    Freed(String),
    /// The daemon started and could not make its socket, for this reason.
    NoSocket(String),
    /// A worker was killed.
    WorkerKilled,
    /// A process that only collects was killed.
    CollectorKilled,
    /// The daemon was killed.
    DaemonKilled,
    /// The daemon stopped on request.
    DaemonStopped,
    /// Everything stood still, and was compared with what the daemon counts.
    Audited,
    /// An event that must never happen.
    Failed(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Recorded events.
    pub what: What,
    /// Bytes that it was about.
    pub bytes: u64,
}

impl What {
    /// Returns true for an operation that the test counts, false for its consequences.
    fn is_operation(&self) -> bool {
        !matches!(
            self,
            Self::RoomMade
                | Self::RoomRefused
                | Self::RoomUnanswered
                | Self::FullOfBytes
                | Self::FullOfFiles
                | Self::Freed(_)
                | Self::NoSocket(_)
                | Self::Failed(_)
        )
    }
}

/// The file, for writing.
#[derive(Debug)]
pub struct EventLog(File);

impl EventLog {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self(file.with_context(|| path.display().to_string())?))
    }

    /// Appends an event in one write. A process that is killed in it may leave a part: lines begin with a line's end,
    /// so that only that one is lost.
    pub fn append(&self, what: What, bytes: u64) -> anyhow::Result<()> {
        let line = serde_json::to_string(&Event { what, bytes })?;
        (&self.0).write_all(format!("\n{line}\n").as_bytes())?;
        Ok(())
    }
}

/// Counts of all events.
#[derive(Debug)]
pub struct Tally {
    file: File,
    /// Bytes that were read and do not end a line yet.
    partial: Vec<u8>,
    rows: BTreeMap<What, (u64, u64)>,
    torn: u64,
}

impl Tally {
    /// Counts what is appended to the file.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            file: File::open(path).with_context(|| path.display().to_string())?,
            partial: Vec::new(),
            rows: BTreeMap::new(),
            torn: 0,
        })
    }

    /// Reads what was appended since the last time. Fails when something happened that must not.
    pub fn read(&mut self) -> anyhow::Result<()> {
        self.file.read_to_end(&mut self.partial)?;
        let complete = self.partial.iter().rposition(|byte| *byte == b'\n');
        let Some(complete) = complete else {
            return Ok(());
        };
        let rest = self.partial.split_off(complete);
        let lines = std::mem::replace(&mut self.partial, rest);
        for line in lines.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Event>(line) else {
                self.torn += 1;
                continue;
            };
            if let What::Failed(why) = &event.what {
                bail!("{why}");
            }
            self.add(event.what, event.bytes);
        }
        let killed = self.count(&What::WorkerKilled)
            + self.count(&What::CollectorKilled)
            + self.count(&What::DaemonKilled);
        ensure!(self.torn <= killed, "{} lines are no events", self.torn);
        Ok(())
    }

    /// Counts an event.
    pub fn add(&mut self, what: What, bytes: u64) {
        let row = self.rows.entry(what).or_default();
        row.0 += 1;
        row.1 += bytes;
    }

    /// Number of operations.
    pub fn operations(&self) -> u64 {
        let rows = self.rows.iter().filter(|(what, _)| what.is_operation());
        rows.map(|(_, (count, _))| count).sum()
    }

    /// Number of times that this happened.
    pub fn count(&self, what: &What) -> u64 {
        self.rows.get(what).map_or(0, |(count, _)| *count)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>8} {:>16}", "event", "count", "bytes")?;
        for (what, (count, bytes)) in &self.rows {
            writeln!(f, "{:<28} {count:>8} {bytes:>16}", format!("{what:?}"))?;
        }
        write!(f, "{:<28} {:>8}", "operations", self.operations())
    }
}
