//! A slow walk over all objects that checks their bytes. Memory has faults, and a writer may break
//! the rules; tmpfs keeps no checksums (LAYOUT.md 9).

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tetris_store_layout::{Fault, Holders, ObjectEntry, Store, StoreError, Verified, VerifyDepth};

use crate::report::{ScrubResult, Scrubbed};
use crate::store::OpenStore;

/// Longest lag behind its pace that the walk makes up for. It forgets more, because the machine was
/// busy then.
const MAX_LAG: Duration = Duration::from_secs(1);

/// The table `[scrub]`: checks of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScrubConfig {
    /// True if objects are checked.
    pub enabled: bool,
    /// Bytes per second.
    #[serde(with = "tetris_units::size")]
    pub bytes_per_sec: u64,
    /// Hours from the start of one walk over all objects to the next.
    #[serde(with = "tetris_units::duration::hours")]
    pub interval_hours: u64,
    /// Checksums to verify.
    pub depth: ScrubDepth,
}

/// Checksums that a scrub verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubDepth {
    /// CRC-32.
    Crc,
    /// CRC-32 and BLAKE3-256.
    Full,
}

impl Default for ScrubConfig {
    /// 4 MiB per second are a tenth of a percent of a core, and 100 GB in seven hours.
    fn default() -> Self {
        Self {
            enabled: true,
            bytes_per_sec: 4 << 20,
            interval_hours: 24,
            depth: ScrubDepth::Crc,
        }
    }
}

impl From<ScrubDepth> for VerifyDepth {
    fn from(depth: ScrubDepth) -> Self {
        match depth {
            ScrubDepth::Crc => Self::Crc,
            ScrubDepth::Full => Self::Full,
        }
    }
}

/// A walk in its own thread; ends when dropped.
#[derive(Debug)]
pub struct Scrubber {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrubber {
    /// Starts to walk over `stores`, again and again. `report` is told of each object. Does nothing
    /// where the configuration asks for it.
    pub fn start(
        stores: Vec<OpenStore>,
        config: ScrubConfig,
        report: impl Fn(Scrubbed) + Send + 'static,
    ) -> std::io::Result<Self> {
        if !config.enabled {
            return Ok(Self {
                stop: None,
                thread: None,
            });
        }
        let (stop, stopped) = channel();
        let walk = Walk {
            pace: Pace::new(config.bytes_per_sec, stopped),
            depth: config.depth.into(),
            report,
        };
        let every = Duration::from_secs(config.interval_hours * 3600);
        let thread = std::thread::Builder::new()
            .name("scrub".to_owned())
            .spawn(move || walk.run(&stores, every))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
    }
}

/// Bytes per second, and the word to stop.
struct Pace {
    bytes_per_sec: u64,
    stopped: Receiver<()>,
    /// Time at which the next piece may be read.
    due: Instant,
}

impl Pace {
    fn new(bytes_per_sec: u64, stopped: Receiver<()>) -> Self {
        Self {
            bytes_per_sec: bytes_per_sec.max(1),
            stopped,
            due: Instant::now(),
        }
    }

    /// Waits until `bytes` more may have been read.
    fn spend(&mut self, bytes: u64) -> ControlFlow<()> {
        let now = Instant::now();
        if now.saturating_duration_since(self.due) > MAX_LAG {
            self.due = now;
        }
        self.due += Duration::from_secs_f64(bytes as f64 / self.bytes_per_sec as f64);
        self.wait(self.due.saturating_duration_since(now))
    }

    fn wait(&self, time: Duration) -> ControlFlow<()> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
        }
    }
}

struct Walk<R> {
    pace: Pace,
    depth: VerifyDepth,
    report: R,
}

impl<R: Fn(Scrubbed)> Walk<R> {
    fn run(mut self, stores: &[OpenStore], every: Duration) {
        crate::priority::yield_to_others();
        loop {
            let began = Instant::now();
            for store in stores {
                if self.walk(store).is_break() {
                    return;
                }
            }
            // At least a moment, so that empty stores are not walked over in a circle.
            let rest = every.saturating_sub(began.elapsed()).max(MAX_LAG);
            if self.pace.wait(rest).is_break() {
                return;
            }
        }
    }

    fn walk(&mut self, open: &OpenStore) -> ControlFlow<()> {
        let name = &open.name;
        let listed = Store::open(&open.root).and_then(|store| {
            let mut objects = store.objects()?.objects;
            objects.sort_unstable_by_key(|entry| entry.object.id);
            Ok((store, objects))
        });
        match listed {
            Ok((store, objects)) => {
                for entry in &objects {
                    self.check(name, &store, entry)?;
                }
            }
            // Passes say what is wrong with the store.
            Err(error) => tracing::debug!(store = name, %error, "not scrubbed"),
        }
        ControlFlow::Continue(())
    }

    fn check(&mut self, name: &str, store: &Store, entry: &ObjectEntry) -> ControlFlow<()> {
        let pace = |bytes| self.pace.spend(bytes);
        let verified = store.verify_paced(&entry.object, self.depth, pace);
        let result = match verified {
            Ok(Verified::Stopped) => return ControlFlow::Break(()),
            Ok(Verified::Absent) => return ControlFlow::Continue(()),
            Ok(Verified::Sound) => ScrubResult::Sound,
            Ok(Verified::Damaged(fault)) => quarantine(name, store, entry, &fault),
            Ok(Verified::Leased) => leased(name, store, entry),
            Err(error) => failed(name, &error),
        };
        (self.report)(Scrubbed {
            store: name.to_owned(),
            result,
            bytes: entry.object.len,
        });
        ControlFlow::Continue(())
    }
}

/// Quarantines a damaged object, and logs its holders: they compute with wrong bytes.
fn quarantine(name: &str, store: &Store, entry: &ObjectEntry, fault: &Fault) -> ScrubResult {
    let holders = Holders::read().map_or(0, |holders| holders.of(entry));
    let processes = Holders::processes(entry);
    match store.quarantine(&entry.object) {
        Ok(_) => {
            tracing::error!(
                store = name, object = %entry.object.id, bytes = entry.object.len, %fault, holders, ?processes,
                "damaged object quarantined; the next load publishes it anew, and processes that map it should be restarted"
            );
            ScrubResult::Quarantined
        }
        Err(error) => failed(name, &error.into()),
    }
}

fn leased(name: &str, store: &Store, entry: &ObjectEntry) -> ScrubResult {
    let path = store.object_path(&entry.object);
    tracing::warn!(store = name, path = %path.display(), "object not checked: a process holds a lease on it; `grep LEASE /proc/locks` gives its process id");
    ScrubResult::Failed
}

fn failed(name: &str, error: &StoreError) -> ScrubResult {
    tracing::warn!(store = name, %error, "object not checked");
    ScrubResult::Failed
}
