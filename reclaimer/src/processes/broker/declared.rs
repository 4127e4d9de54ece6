//! Declarations of pods as `cluster` reports them, and their freshness while it is silent.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::time::Instant;

use crate::engine::commands::Command;
use crate::keep_warm::{Freshness, WarmSet};
use crate::processes::messages::DECLARATIONS_OLD;

/// Declarations on their way to the engine, which hears of changes alone.
#[derive(Debug)]
pub(crate) struct Declared(Mutex<Inside>);

#[derive(Debug)]
struct Inside {
    set: WarmSet,
    /// Time of the last message.
    heard: Instant,
    /// The same by the clock of the wall.
    heard_at: SystemTime,
    commands: Sender<Command>,
}

impl Declared {
    /// Declarations that are in force at the start. Changes go to `commands`.
    pub(crate) fn new(set: WarmSet, commands: Sender<Command>) -> Self {
        Self(Mutex::new(Inside {
            set,
            heard: Instant::now(),
            heard_at: SystemTime::now(),
            commands,
        }))
    }

    /// Takes over the declarations that the stores have of an earlier run, unless `cluster` was
    /// faster. The engine knows them.
    pub(crate) fn begin(&self, kept: WarmSet) {
        let mut inside = self.lock();
        if inside.set.freshness == Freshness::Unknown {
            inside.set = kept;
        }
    }

    /// Takes a message. One that knows nothing of the cluster leaves the known declarations in
    /// force.
    pub(crate) fn take(&self, message: WarmSet) {
        let mut inside = self.lock();
        match message.freshness {
            Freshness::Current | Freshness::Stale { .. } => inside.change(message),
            Freshness::NoCluster | Freshness::Unknown => inside.become_stale(),
        }
        inside.heard = Instant::now();
        inside.heard_at = SystemTime::now();
    }

    /// Makes the declarations stale if `cluster` has been silent for too long.
    pub(crate) fn check(&self) {
        let mut inside = self.lock();
        if inside.heard.elapsed() >= DECLARATIONS_OLD {
            inside.become_stale();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Marks current declarations as stale since the last message.
    fn become_stale(&mut self) {
        if self.set.freshness == Freshness::Current {
            tracing::warn!(
                "`tetris-node cluster` says nothing new of declarations: the last ones stay in force"
            );
            let since = self.heard_at;
            self.change(WarmSet {
                freshness: Freshness::Stale { since },
                pods: self.set.pods.clone(),
            });
        }
    }

    fn change(&mut self, set: WarmSet) {
        if self.set != set {
            self.set = set;
            let _engine_has_ended = self.commands.send(Command::Declared(self.set.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::keep_warm::Pod;

    fn set(freshness: Freshness, pods: &[&str]) -> WarmSet {
        let pods = pods.iter().map(|name| {
            let pod = Pod {
                namespace: "blue".to_owned(),
                name: (*name).to_owned(),
                uid: (*name).to_owned(),
            };
            (pod, BTreeSet::from(["bert".parse().unwrap()]))
        });
        WarmSet {
            freshness,
            pods: pods.collect(),
        }
    }

    fn told(commands: &Receiver<Command>) -> Vec<WarmSet> {
        let declared = |command| match command {
            Command::Declared(set) => set,
            other => panic!("{other:?}"),
        };
        commands.try_iter().map(declared).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_engine_hears_of_changes_alone() {
        let (sender, commands) = channel();
        let declared = Declared::new(set(Freshness::Unknown, &[]), sender);
        let first = set(Freshness::Current, &["a"]);
        declared.take(first.clone());
        declared.take(first.clone());
        assert_eq!(told(&commands), [first]);
    }

    #[tokio::test(start_paused = true)]
    async fn declarations_of_an_earlier_run_stay_until_the_cluster_is_known() {
        let kept = set(Freshness::Stale { since: UNIX_EPOCH }, &["a"]);
        let (sender, commands) = channel();
        let declared = Declared::new(kept, sender);
        declared.take(set(Freshness::Unknown, &[]));
        declared.take(set(Freshness::NoCluster, &[]));
        assert_eq!(told(&commands), []);
    }

    #[tokio::test(start_paused = true)]
    async fn declarations_are_stale_since_the_last_word_of_a_silent_cluster() {
        let (sender, commands) = channel();
        let declared = Declared::new(set(Freshness::Unknown, &[]), sender);
        let before = SystemTime::now();
        declared.take(set(Freshness::Current, &["a"]));
        tokio::time::advance(DECLARATIONS_OLD / 2).await;
        declared.check();
        assert_eq!(told(&commands).len(), 1);
        tokio::time::advance(DECLARATIONS_OLD).await;
        declared.check();
        declared.check();
        let after = told(&commands);
        let [stale] = after.as_slice() else {
            panic!("{after:?}");
        };
        assert!(
            matches!(stale.freshness, Freshness::Stale { since } if since >= before),
            "{stale:?}"
        );
        assert_eq!(stale.pods.len(), 1);
        // Its next word makes them current.
        declared.take(set(Freshness::Current, &["a"]));
        assert_eq!(told(&commands), [set(Freshness::Current, &["a"])]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_break_that_the_cluster_tells_of_keeps_its_moment() {
        let (sender, commands) = channel();
        let declared = Declared::new(set(Freshness::Unknown, &[]), sender);
        let stale = set(Freshness::Stale { since: UNIX_EPOCH }, &["a"]);
        declared.take(stale.clone());
        assert_eq!(told(&commands), [stale]);
    }
}
