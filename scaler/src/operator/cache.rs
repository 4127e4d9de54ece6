//! Copies of the API server's objects, kept up to date by a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt as _};
use kube::ResourceExt;
use kube::runtime::watcher::{Error, Event};
use tokio::sync::Notify;

use super::outage::Outage;
use crate::state::Key;

/// Records by namespace and name. Clones share them.
#[derive(Debug)]
pub struct Cache<V>(Arc<Mutex<Records<V>>>);

#[derive(Debug)]
struct Records<V> {
    current: Arc<BTreeMap<Key, Arc<V>>>,
    /// Records so far of a list that is being read.
    listed: Option<BTreeMap<Key, Arc<V>>>,
    synced: bool,
}

impl<V> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Records {
            current: Arc::default(),
            listed: None,
            synced: false,
        })))
    }
}

impl<V: PartialEq> Cache<V> {
    /// Returns all records, or `None` before the first list is complete.
    pub fn all(&self) -> Option<Arc<BTreeMap<Key, Arc<V>>>> {
        let records = self.lock();
        records.synced.then(|| Arc::clone(&records.current))
    }

    /// Takes in what `events` brings, until it ends. `changed` is notified when something is different; `outage`, what
    /// goes wrong: the watch goes on by itself, after the time that the server asks for.
    pub async fn follow<K: ResourceExt>(
        &self,
        events: impl Stream<Item = Result<Event<K>, Error>>,
        read: impl Fn(K) -> Option<V>,
        changed: &Notify,
        mut outage: Outage,
    ) {
        tokio::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // A list that begins has not been answered yet.
                    if !matches!(event, Event::Init) {
                        outage.answered();
                    }
                    if self.take_in(event, &read) {
                        changed.notify_one();
                    }
                }
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
            }
        }
    }

    /// Applies one event. Returns true if it changes a record.
    pub fn take_in<K: ResourceExt>(&self, event: Event<K>, read: impl Fn(K) -> Option<V>) -> bool {
        let key = |object: &K| Key::new(object.namespace().unwrap_or_default(), object.name_any());
        let mut records = self.lock();
        match event {
            Event::Init => {
                records.listed = Some(BTreeMap::new());
                false
            }
            Event::InitApply(object) => {
                let key = key(&object);
                if let (Some(record), Some(listed)) = (read(object), &mut records.listed) {
                    listed.insert(key, Arc::new(record));
                }
                false
            }
            Event::InitDone => {
                let listed = records.listed.take().unwrap_or_default();
                let differs = !records.synced || *records.current != listed;
                records.current = Arc::new(listed);
                records.synced = true;
                differs
            }
            Event::Apply(object) => {
                let key = key(&object);
                records.set(key, read(object))
            }
            Event::Delete(object) => records.set(key(&object), None),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Records<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: PartialEq> Records<V> {
    fn set(&mut self, key: Key, record: Option<V>) -> bool {
        if self.current.get(&key).map(Arc::as_ref) == record.as_ref() {
            return false;
        }
        // Copies only the map, and only while a reader still has the last one.
        let current = Arc::make_mut(&mut self.current);
        match record {
            Some(record) => drop(current.insert(key, Arc::new(record))),
            None => drop(current.remove(&key)),
        }
        true
    }
}
