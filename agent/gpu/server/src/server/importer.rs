//! Processes that got chunks.
//!
//! A descriptor outlives its connection, and so does a mapping. So a chunk whose memory is not free
//! when it is released counts until the last process that the server passed it to has ended (B8).
//!
//! **Caveats.** A process can pass descriptors on, or leave them to a child: then no one counts
//! them. Where the kernel does not tell the process (before Linux 6.5, in another PID namespace)
//! the connection stands for it.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tetris_wire::{Peer, PeerProcess};

/// A process that gets chunks over one or several connections.
#[derive(Debug)]
pub(super) struct Importer {
    /// `None` if it is not known, or this process itself: then the connection stands for it.
    process: Option<PeerProcess>,
    connected: AtomicBool,
}

/// All importers with a connection or a chunk.
#[derive(Debug, Default)]
pub(super) struct Importers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By the numbers of their processes: one for all connections of a process.
    numbered: BTreeMap<u64, Weak<Importer>>,
    /// One for each connection.
    others: Vec<Weak<Importer>>,
}

/// The result of looking for a client's process.
pub(super) struct FoundImporter {
    pub importer: Arc<Importer>,
    /// True if the kernel does not tell the process.
    pub is_unknown: bool,
}

impl Importer {
    pub(super) fn new(process: Option<PeerProcess>) -> Arc<Self> {
        Arc::new(Self {
            process,
            connected: AtomicBool::new(true),
        })
    }

    /// Returns true if nothing of it can hold memory any more.
    pub fn has_gone(&self) -> bool {
        let ended = self.process.as_ref().map(PeerProcess::has_ended);
        ended.unwrap_or_else(|| !self.connected.load(Ordering::Relaxed))
    }

    /// Records the end of its connection.
    pub fn hung_up(&self) {
        self.connected.store(false, Ordering::Relaxed);
    }
}

impl Importers {
    /// Finds the process at the other end of `socket`. `None` if there are `most` processes
    /// already.
    pub fn find(&self, socket: &impl AsFd, most: usize) -> Option<FoundImporter> {
        let is_own = Peer::of(socket).is_ok_and(|peer| peer.pid == Some(std::process::id()));
        let process = (!is_own).then(|| PeerProcess::of(socket)).flatten();
        let is_unknown = process.is_none() && !is_own;
        let number = process.as_ref().and_then(PeerProcess::number);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { numbered, others } = &mut *known;
        let same = number.and_then(|number| numbered.get(&number)?.upgrade());
        if let Some(importer) = same {
            return Some(FoundImporter {
                importer,
                is_unknown,
            });
        }
        numbered.retain(|_, importer| importer.strong_count() > 0);
        others.retain(|importer| importer.strong_count() > 0);
        if numbered.len() + others.len() >= most {
            return None;
        }
        let importer = Importer::new(process);
        let weak = Arc::downgrade(&importer);
        match number {
            Some(number) => drop(numbered.insert(number, weak)),
            None => others.push(weak),
        }
        Some(FoundImporter {
            importer,
            is_unknown,
        })
    }
}
