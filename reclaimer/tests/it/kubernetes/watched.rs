//! The watch as the daemon runs it, and its view of the set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tetris_node::keep_warm::{Freshness, Pod, WarmSet};
use tetris_node::kubernetes::{DEFAULT_ANNOTATION, Fault, WatchOptions, watch};
use tokio::sync::{oneshot, watch as channel};
use tokio::task::JoinHandle;

use crate::kubernetes::server::{NODE, Server};

/// Of paused time, so no one waits for it; far beyond every backoff.
const DEADLINE: Duration = Duration::from_hours(1);

pub struct Watched {
    pub server: Server,
    pub set: channel::Receiver<WarmSet>,
    pub faults: Arc<Mutex<Vec<Fault>>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Watched {
    pub fn start() -> Self {
        Self::start_with(WarmSet::before_first_sync(None, SystemTime::UNIX_EPOCH))
    }

    pub fn start_with(before: WarmSet) -> Self {
        let (client, server) = Server::start();
        let (sender, set) = channel::channel(before);
        let (stop, stopped) = oneshot::channel::<()>();
        let faults = Arc::new(Mutex::new(Vec::new()));
        let options = WatchOptions::try_new(NODE, DEFAULT_ANNOTATION).unwrap();
        let count = Arc::clone(&faults);
        let task = tokio::spawn(watch(
            client,
            options,
            sender,
            move |fault| count.lock().unwrap().push(fault),
            async { drop(stopped.await) },
        ));
        Self {
            server,
            set,
            faults,
            stop,
            task,
        }
    }

    /// Waits for the next set that is published.
    pub async fn published(&mut self) -> WarmSet {
        let changed = tokio::time::timeout(DEADLINE, self.set.changed()).await;
        changed.expect("nothing was published").unwrap();
        self.set.borrow_and_update().clone()
    }

    /// The next set that is published: its freshness, and models by name of the pod.
    pub async fn next(&mut self) -> (&'static str, BTreeMap<String, String>) {
        view(&self.published().await)
    }

    /// The set now; nothing was published since the last look.
    pub fn unchanged(&self) -> (&'static str, BTreeMap<String, String>) {
        assert!(!self.set.has_changed().unwrap(), "{:?}", self.set.borrow());
        view(&self.set.borrow())
    }

    pub fn fault_count(&self, fault: Fault) -> usize {
        let faults = self.faults.lock().unwrap();
        faults.iter().filter(|found| **found == fault).count()
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

pub fn view(set: &WarmSet) -> (&'static str, BTreeMap<String, String>) {
    let freshness = match set.freshness {
        Freshness::NoCluster => "no-cluster",
        Freshness::Unknown => "unknown",
        Freshness::Current => "current",
        Freshness::Stale { .. } => "stale",
    };
    let models = set.pods.iter().map(|(pod, declared)| {
        let declared: Vec<String> = declared.iter().map(ToString::to_string).collect();
        (pod.name.clone(), declared.join(" "))
    });
    (freshness, models.collect())
}

/// Pods and what they declare, to compare a view with.
pub fn pods<const N: usize>(pods: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pods = pods.map(|(name, models)| (name.to_owned(), models.to_owned()));
    pods.into()
}

/// Set that an earlier run of the daemon persisted.
pub fn known(name: &str, model: &str) -> WarmSet {
    let pod = Pod {
        namespace: "blue".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
    };
    let models = [model.parse().unwrap()].into();
    let known = [(pod, models)].into();
    WarmSet::before_first_sync(Some(known), SystemTime::UNIX_EPOCH)
}
