//! A group of engines of the file.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tetris_scaler::resources::ServedPaths;
use tetris_scaler_dispatch::engines::{EngineId, EngineState};

use super::engine::{Engine, EngineSettings};
use super::member::EngineMember;
use super::metrics::EngineMetrics;
use super::page::{EnginePage, GroupPage};
use super::settings::GroupSettings;
use super::shared::SharedGroup;
use super::{follow, timer};

/// A group of engines on one device.
#[derive(Debug)]
pub(crate) struct SleepingGroup {
    shared: Arc<SharedGroup>,
    paths: ServedPaths,
    /// Unix time of its start, in seconds.
    created: u64,
}

/// A model in the list of models, in OpenAI's form.
#[derive(Debug, Serialize)]
pub(crate) struct ModelEntry<'a> {
    pub(crate) id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// The model's own name.
    root: &'a str,
    /// The model of an adapter.
    parent: Option<&'a str>,
}

impl SleepingGroup {
    /// Creates a group, and starts its tasks.
    pub(crate) fn new(
        name: &str,
        settings: GroupSettings,
        paths: ServedPaths,
        engines: Vec<EngineSettings>,
        metrics: EngineMetrics,
    ) -> Arc<Self> {
        let engines = engines.into_iter().enumerate();
        let engines = engines.map(|(at, of)| Arc::new(Engine::new(EngineId(at), of)));
        let shared = SharedGroup::new(name, settings, engines.collect(), metrics);
        shared.runtime.spawn(timer::run(Arc::downgrade(&shared)));
        for engine in &shared.engines {
            let group = Arc::downgrade(&shared);
            let following = follow::run(group, Arc::clone(engine), settings.poll);
            shared.runtime.spawn(following);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Arc::new(Self {
            shared,
            paths,
            created: now.unwrap_or_default().as_secs(),
        })
    }

    /// Its engines as functions, with their names, and with the names of models that lead to them.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, Vec<String>, EngineMember)> {
        self.shared.engines.iter().map(|engine| {
            let member = EngineMember {
                group: Arc::clone(&self.shared),
                engine: Arc::clone(engine),
            };
            let of = &engine.settings;
            let models = of.models.iter().chain(&of.adapters).cloned();
            (of.name.as_str(), models.collect(), member)
        })
    }

    /// Paths that its engines serve.
    pub(crate) const fn paths(&self) -> &ServedPaths {
        &self.paths
    }

    /// Models of all engines, also of those that sleep.
    pub(crate) fn models(&self) -> impl Iterator<Item = ModelEntry<'_>> {
        let created = self.created;
        self.shared.engines.iter().flat_map(move |engine| {
            let (root, of) = (engine.model(), &engine.settings);
            let entry = move |id, parent| ModelEntry {
                id,
                object: "model",
                created,
                owned_by: "tetris",
                root: if parent { id } else { root },
                parent: parent.then_some(root),
            };
            let models = of.models.iter().map(move |id| entry(id, false));
            models.chain(of.adapters.iter().map(move |id| entry(id, true)))
        })
    }

    /// States for reports.
    pub(crate) fn page(&self) -> GroupPage {
        let shared = &self.shared;
        let now_us = shared.now_us();
        let state = shared.lock();
        let group = &state.group;
        let engines = shared.engines.iter().map(|engine| {
            let of = &engine.settings;
            let (waiting, running) = group.load(engine.id);
            let used_us = group.used_us(engine.id);
            EnginePage {
                engine: of.name.clone(),
                address: of.address,
                models: of.models.clone(),
                adapters: of.adapters.clone(),
                state: group.state(engine.id).map_or("unknown", EngineState::label),
                waiting,
                running,
                idle_ms: used_us.map(|at| now_us.saturating_sub(at) / 1_000),
            }
        });
        GroupPage {
            group: shared.name.clone(),
            capacity: group.rules().capacity,
            used: group.used(),
            unit: if shared.settings.is_count {
                "engines"
            } else {
                "bytes"
            },
            waiting: group.waiting(),
            engines: engines.collect(),
        }
    }
}
