//! Poller of the daemons' inventories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tetris_scaler_core::{Inventory, InventoryFull, InventoryLimits};
use tetris_service_kit::bound_tls::BoundClient;
use tokio::time::Instant;

use super::PollError;
use super::fetch::{Daemon, Fetched, Fetcher};
use super::gpu::NodeGpu;
use super::page::{KeptModel, Page, Room};
use super::tokens::Tokens;

/// Service of which the daemons' certificates name a server.
const SERVICE: &str = "tetris-node";

/// Limits on the polls of daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollOptions {
    /// Timeout of one request.
    pub timeout: Duration,
    /// Maximum size of a page after decompression: 16 MiB are 240,000 objects.
    pub max_bytes: usize,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Time without a successful read after which a node counts as having no tensors.
    pub stale: Duration,
}

impl Default for PollOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            max_bytes: 16 << 20,
            concurrency: 16,
            stale: Duration::from_mins(2),
        }
    }
}

/// Inventories of all nodes, as last read.
#[derive(Debug, Clone, Default)]
pub struct Inventories {
    /// Tensors of the nodes.
    pub inventory: Arc<Inventory>,
    /// Room for more tensors, by node.
    pub rooms: BTreeMap<String, Arc<Room>>,
    /// GPUs with a GPU mirror, by node.
    pub gpus: BTreeMap<String, Arc<[NodeGpu]>>,
    /// Models that pods keep, by node.
    pub kept: BTreeMap<String, Arc<[KeptModel]>>,
}

/// Tag and time of a node's last page.
#[derive(Debug)]
struct Known {
    tag: Option<String>,
    read: Instant,
}

/// Polls daemons and keeps their answers.
#[derive(Debug)]
pub struct Poller {
    fetcher: Fetcher,
    options: PollOptions,
    known: BTreeMap<String, Known>,
    latest: Arc<Mutex<Inventories>>,
}

impl Poller {
    /// Creates a poller with an empty inventory, which shows daemons its `tokens`.
    ///
    /// # Errors
    ///
    /// Fails if the cryptography has no TLS 1.3.
    pub fn try_new(
        options: PollOptions,
        limits: InventoryLimits,
        tokens: Tokens,
    ) -> Result<Self, rustls::Error> {
        let fetcher = Fetcher {
            client: BoundClient::try_new(SERVICE)?,
            tokens,
            time: options.timeout,
            size: options.max_bytes,
        };
        let latest = Inventories {
            inventory: Arc::new(Inventory::new(limits)),
            ..Inventories::default()
        };
        Ok(Self {
            fetcher,
            options,
            known: BTreeMap::new(),
            latest: Arc::new(Mutex::new(latest)),
        })
    }

    /// Returns a handle to the latest inventories.
    pub fn latest(&self) -> Arc<Mutex<Inventories>> {
        Arc::clone(&self.latest)
    }

    /// Polls all daemons once. Returns true if an inventory changed, and the errors.
    pub async fn round(&mut self, daemons: &[Daemon]) -> (bool, Vec<PollError>) {
        let fetcher = &self.fetcher;
        let questions = daemons.iter().map(|daemon| {
            let known = self.known.get(&daemon.node);
            let tag = known.and_then(|known| known.tag.clone());
            async move {
                let fetched = fetcher.fetch(daemon, tag.as_deref()).await;
                (daemon.node.clone(), fetched)
            }
        });
        // The futures borrow `self.known`; the answers do not.
        let questions: Vec<_> = questions.collect();
        let answers =
            futures::stream::iter(questions).buffer_unordered(self.options.concurrency.max(1));
        let answers: Vec<_> = answers.collect().await;
        self.take_in(daemons, answers)
    }

    fn take_in(
        &mut self,
        daemons: &[Daemon],
        answers: Vec<(String, Result<Fetched, PollError>)>,
    ) -> (bool, Vec<PollError>) {
        let now = Instant::now();
        let (mut pages, mut errors) = (Vec::new(), Vec::new());
        for (node, fetched) in answers {
            match fetched {
                Ok(Fetched::Unchanged) => {
                    if let Some(known) = self.known.get_mut(&node) {
                        known.read = now;
                    }
                }
                Ok(Fetched::Page(page, tag)) => {
                    self.known.insert(node.clone(), Known { tag, read: now });
                    pages.push((node, page));
                }
                Err(error) => errors.push(error),
            }
        }
        let gone = self.forget(daemons, now);
        let changed = !pages.is_empty() || !gone.is_empty();
        if changed {
            let full = self.apply(pages, &gone);
            errors.extend(full.into_iter().map(PollError::from));
        }
        (changed, errors)
    }

    /// Removes and returns nodes without a daemon, and nodes without a successful read for too
    /// long.
    fn forget(&mut self, daemons: &[Daemon], now: Instant) -> Vec<String> {
        let present: BTreeSet<&str> = daemons.iter().map(|daemon| daemon.node.as_str()).collect();
        let stale = self.options.stale;
        let is_gone = |node: &str, known: &Known| {
            !present.contains(node) || now.saturating_duration_since(known.read) > stale
        };
        let gone: Vec<String> = (self.known.iter())
            .filter(|(node, known)| is_gone(node, known))
            .map(|(node, _)| node.clone())
            .collect();
        for node in &gone {
            self.known.remove(node);
        }
        gone
    }

    /// Takes in the pages, and returns those without room.
    fn apply(&mut self, pages: Vec<(String, Page)>, gone: &[String]) -> Vec<InventoryFull> {
        let mut refused = Vec::new();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let Inventories {
            inventory,
            rooms,
            gpus,
            kept,
        } = &mut *latest;
        let inventory = Arc::make_mut(inventory);
        for node in gone {
            inventory.remove_node(node);
            rooms.remove(node);
            gpus.remove(node);
            kept.remove(node);
        }
        for (node, page) in pages {
            if let Err(full) = inventory.set_node(&node, &page.objects) {
                refused.push(full);
                // Without the tag the next poll gets the full page; there may be room by then.
                if let Some(known) = self.known.get_mut(&node) {
                    known.tag = None;
                }
            }
            if page.gpus.is_empty() {
                gpus.remove(&node);
            } else {
                gpus.insert(node.clone(), page.gpus.into());
            }
            if page.kept.is_empty() {
                kept.remove(&node);
            } else {
                kept.insert(node.clone(), page.kept.into());
            }
            match page.room {
                Some(room) => drop(rooms.insert(node, Arc::new(room))),
                None => drop(rooms.remove(&node)),
            }
        }
        refused
    }
}
