//! Events of published objects and of new stores, from the kernel (inotify(7)) to the engine.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};

use crate::engine::commands::Command;
use crate::store::OpenStore;

/// Watches the objects' folders for created files only. Events of opened files, as by default,
/// would cost every load on the node.
pub struct Events {
    watcher: Option<RecommendedWatcher>,
    watched: Vec<OpenStore>,
    /// Watcher of the directory of namespaces' stores.
    parent: Option<(PathBuf, Option<RecommendedWatcher>)>,
    commands: Sender<Command>,
}

impl Events {
    /// Events go to `commands`.
    pub fn new(commands: Sender<Command>) -> Self {
        Self {
            watcher: None,
            watched: Vec::new(),
            parent: None,
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
        let folders = stores.iter().map(|store| store.objects.as_path());
        match self.watcher_of(folders, || Command::Event) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "no events from the file system: passes are made at the interval only");
            }
        }
    }

    /// Watches the directory in which the stores of namespaces are made, if there is one.
    pub fn watch_parent(&mut self, parent: Option<&Path>) {
        let watched = self.parent.as_ref().map(|(path, _)| path.as_path());
        if parent == watched {
            return;
        }
        self.parent = parent.map(|path| {
            let watcher = self.watcher_of([path].into_iter(), || Command::Look);
            let watcher = watcher.map_err(|error| {
                tracing::warn!(%error, path = %path.display(), "no events of new stores: they are found at the next watermark check");
            });
            (path.to_owned(), watcher.ok())
        });
    }

    /// A watcher that sends a command for each file or directory made in `folders`.
    fn watcher_of<'a>(
        &self,
        mut folders: impl Iterator<Item = &'a Path>,
        command: impl Fn() -> Command + Send + 'static,
    ) -> notify::Result<RecommendedWatcher> {
        let commands = self.commands.clone();
        let config = Config::default().with_event_kinds(EventKindMask::CREATE);
        let mut watcher = RecommendedWatcher::new(
            move |_event| {
                // The engine has gone: so will this.
                let _ended = commands.send(command());
            },
            config,
        )?;
        folders.try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
        Ok(watcher)
    }
}
