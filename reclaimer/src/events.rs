//! Events of published objects, from the kernel (inotify(7)) to the engine.

use std::sync::mpsc::Sender;

use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};

use crate::reclaimer::engine::Command;
use crate::store::OpenStore;

/// Watches the objects' folders for created files only. Events of opened files, as by default,
/// would cost every load on the node.
pub struct Events {
    watcher: Option<RecommendedWatcher>,
    watched: Vec<OpenStore>,
    commands: Sender<Command>,
}

impl Events {
    /// Events go to `commands`.
    pub fn new(commands: Sender<Command>) -> Self {
        Self {
            watcher: None,
            watched: Vec::new(),
            commands,
        }
    }

    /// Watches these stores and no others. Without events, which can fail for want of inotify
    /// instances, the daemon goes by its interval.
    pub fn watch(&mut self, stores: &[OpenStore]) {
        if stores == self.watched {
            return;
        }
        self.watcher = None;
        self.watched = stores.to_vec();
        let commands = self.commands.clone();
        let config = Config::default().with_event_kinds(EventKindMask::CREATE);
        let watcher = RecommendedWatcher::new(
            move |_event| {
                // The engine has gone: so will this.
                let _ended = commands.send(Command::Event);
            },
            config,
        );
        let watching = watcher.and_then(|mut watcher| {
            for store in stores {
                watcher.watch(&store.objects, RecursiveMode::NonRecursive)?;
            }
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "no events from the file system: passes are made at the interval only");
            }
        }
    }
}
