//! Cache of the declarations, fed by events of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use kube::runtime::watcher::{self, Event};
use tokio::sync::watch::Sender;
use tracing::{debug, info, warn};

use super::Fault;
use super::annotation::DeclaredModels;
use super::failure::{WatchHealth, next_step, root_cause};
use super::options::WatchOptions;
use super::pod::{self, BoundPod, Seen};
use crate::keep_warm::{Declaration, Freshness, Pod, WarmSet};

/// Keeps the set in the channel current. The set lives there alone: it is changed in place, and
/// receivers see only real changes.
pub(super) struct DeclarationCache<F> {
    options: WatchOptions,
    warm: Sender<WarmSet>,
    faults: F,
    relist: Relist,
    /// Pods whose malformed items were reported.
    reported: BTreeSet<Pod>,
    health: WatchHealth,
}

/// Contents of a list that is not complete yet.
#[derive(Default)]
struct Relist {
    pods: BTreeMap<Pod, BTreeSet<Declaration>>,
    malformed: BTreeSet<Pod>,
}

impl<F: Fn(Fault)> DeclarationCache<F> {
    pub(super) fn new(options: WatchOptions, warm: Sender<WarmSet>, faults: F) -> Self {
        let cache = Self {
            options,
            warm,
            faults,
            relist: Relist::default(),
            reported: BTreeSet::new(),
            health: WatchHealth::Good,
        };
        cache.begin();
        cache
    }

    pub(super) fn options(&self) -> &WatchOptions {
        &self.options
    }

    /// Marks the set in the channel as not seen by this watch. It stays in force.
    fn begin(&self) {
        self.warm.send_if_modified(|set| {
            let before = set.freshness;
            set.freshness = match before {
                Freshness::NoCluster => Freshness::Unknown,
                Freshness::Current => stale_now(),
                Freshness::Unknown | Freshness::Stale { .. } => before,
            };
            set.freshness != before
        });
    }

    pub(super) fn observe(&mut self, event: Event<BoundPod>) {
        match event {
            Event::Init => self.relist = Relist::default(),
            Event::InitApply(pod) => self.listed(&pod),
            Event::InitDone => self.synced(),
            Event::Apply(pod) => self.applied(&pod),
            Event::Delete(pod) => self.deleted(&pod),
        }
    }

    fn listed(&mut self, pod: &BoundPod) {
        if let Seen::Runs(pod, declared) = pod::look(pod, &self.options) {
            self.report(&pod, &declared);
            if declared.left_out > 0 {
                self.relist.malformed.insert(pod.clone());
            }
            if !declared.models.is_empty() {
                self.relist.pods.insert(pod, declared.models);
            }
        }
    }

    /// The list is complete: only now is a pod that is not in it gone.
    fn synced(&mut self) {
        let Relist { pods, malformed } = std::mem::take(&mut self.relist);
        self.reported = malformed;
        if std::mem::replace(&mut self.health, WatchHealth::Good) == WatchHealth::Failing {
            info!(
                node = self.options.node(),
                pods = pods.len(),
                "the API server is watched again"
            );
        }
        self.warm.send_if_modified(|set| {
            let now = WarmSet {
                freshness: Freshness::Current,
                pods,
            };
            let changed = *set != now;
            *set = now;
            changed
        });
    }

    fn applied(&mut self, pod: &BoundPod) {
        match pod::look(pod, &self.options) {
            Seen::Elsewhere => {}
            Seen::Ended(pod) => self.forget(&pod),
            Seen::Runs(pod, declared) => {
                self.report(&pod, &declared);
                self.declare(pod, declared.models);
            }
        }
    }

    fn deleted(&mut self, pod: &BoundPod) {
        if let Some(pod) = pod::identity(&pod.metadata) {
            self.forget(&pod);
        }
    }

    fn declare(&self, pod: Pod, models: BTreeSet<Declaration>) {
        self.warm.send_if_modified(|set| {
            if models.is_empty() {
                return set.pods.remove(&pod).is_some();
            }
            let changed = set.pods.get(&pod) != Some(&models);
            set.pods.insert(pod, models);
            changed
        });
    }

    fn forget(&mut self, pod: &Pod) {
        self.reported.remove(pod);
        self.warm
            .send_if_modified(|set| set.pods.remove(pod).is_some());
    }

    /// Once per pod, not with each event of it; again if it was right in between.
    fn report(&mut self, pod: &Pod, declared: &DeclaredModels) {
        let Some(error) = &declared.first_error else {
            self.reported.remove(pod);
            return;
        };
        if !self.reported.insert(pod.clone()) {
            return;
        }
        warn!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            annotation = self.options.annotation(),
            left_out = declared.left_out,
            first = %error,
            "models that a pod declares are left out: correct its annotation"
        );
        (self.faults)(Fault::Declarations(declared.left_out));
    }

    /// Handles a break of the watch. The known declarations stay in force.
    pub(super) fn broke(&mut self, error: &watcher::Error) {
        self.warm.send_if_modified(|set| {
            let current = set.freshness == Freshness::Current;
            if current {
                set.freshness = stale_now();
            }
            current
        });
        let cause = root_cause(error);
        let before = self.health;
        self.health = before.after(error);
        match self.health {
            WatchHealth::PutOff(_) => {
                debug!(%error, %cause, "the API server asks to be watched later");
                return;
            }
            WatchHealth::Failing if before == WatchHealth::Failing => {
                debug!(%error, %cause, "the API server still cannot be watched");
            }
            WatchHealth::Failing | WatchHealth::Good => {
                let next_step = next_step(error);
                warn!(%error, %cause, next_step, "cannot watch the API server: the last declarations stay in force");
            }
        }
        (self.faults)(Fault::Watch);
    }
}

fn stale_now() -> Freshness {
    Freshness::Stale {
        since: SystemTime::now(),
    }
}
