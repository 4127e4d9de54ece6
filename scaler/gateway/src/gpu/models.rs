//! Numbers of models by name, and their contents.

use std::collections::{BTreeMap, HashMap};

use tetris_scaler_dispatch::gpu::{GpuId, GpuModel, GpuScheduler, ModelId, Part};

use super::limits::PARTS_OF_POOL;
use super::page_error::PageError;

/// Models of the functions of a pool. Their numbers stay the same for its life. A model has the content that most
/// executors report, so that a single one does not change what the others have. A content is forgotten once no executor reports
/// it.
#[derive(Debug, Default)]
pub(super) struct Models {
    all: Vec<Known>,
    by_name: HashMap<String, ModelId>,
    /// Number of parts of all contents.
    parts: usize,
}

/// A model by its name at the executors.
#[derive(Debug)]
struct Known {
    name: String,
    content: Option<Content>,
    /// Identity of the content on the last page of each executor.
    told: BTreeMap<GpuId, Box<str>>,
    times: Times,
}

/// Content of a model, which executors have reported.
#[derive(Debug)]
struct Content {
    identity: Box<str>,
    /// Number of its parts.
    parts: usize,
}

/// Standing of a content that an executor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Its parts are known.
    Known,
    /// Its parts are not known.
    New,
    /// Most executors report another one.
    Other,
}

/// Times of a model's inference, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// With all weights in place.
    pub infer_us: u64,
    /// Part of it that follows the last byte of a load.
    pub after_load_us: u64,
}

impl Models {
    /// Number of a model. Two functions of one model share its number and its times, which are those of
    /// the later one.
    pub(super) fn number(
        &mut self,
        scheduler: &mut GpuScheduler,
        name: &str,
        times: Times,
    ) -> ModelId {
        if let Some(&id) = self.by_name.get(name) {
            if let (Some(known), Some(model)) =
                (self.all.get_mut(id.0 as usize), scheduler.model(id))
            {
                known.times = times;
                let parts = model.parts.clone();
                scheduler.set_model(id, of(parts, times));
            }
            return id;
        }
        let id = scheduler.add_model(of(Vec::new(), times));
        self.by_name.insert(name.to_owned(), id);
        self.all.push(Known {
            name: name.to_owned(),
            content: None,
            told: BTreeMap::new(),
            times,
        });
        id
    }

    /// Number of the model with this name.
    pub(super) fn find(&self, name: &str) -> Option<ModelId> {
        self.by_name.get(name).copied()
    }

    /// Numbers of all models.
    pub(super) fn ids(&self) -> impl Iterator<Item = ModelId> + use<> {
        (0..self.all.len() as u32).map(ModelId)
    }

    /// Name of a model at the executors.
    pub(super) fn name(&self, id: ModelId) -> &str {
        self.all.get(id.0 as usize).map_or("", |known| &known.name)
    }

    /// Returns true if the parts of the model with this content are not known.
    pub(super) fn is_new(&self, id: ModelId, identity: &str) -> bool {
        let known = self.all.get(id.0 as usize);
        known.is_some_and(|known| {
            let content = known.content.as_ref();
            content.is_none_or(|content| *content.identity != *identity)
        })
    }

    /// Notes the content that an executor reports.
    pub(super) fn tell(&mut self, id: ModelId, gpu: GpuId, identity: &str) -> Told {
        let Some(known) = self.all.get_mut(id.0 as usize) else {
            return Told::Other;
        };
        let current = known.content.as_ref().map(|content| &*content.identity);
        let before = known.told.get(&gpu).map(|told| &**told);
        let agreed = before.is_none() || before == current;
        if before != Some(identity) {
            known.told.insert(gpu, identity.into());
        } else if before == current {
            return Told::Known;
        }
        let mut votes: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for told in known.told.values() {
            let (count, is_current) = votes.entry(told).or_default();
            *count = count.saturating_add(1);
            *is_current = current == Some(&**told);
        }
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
        if most.is_some_and(|(most, _)| most != identity) {
            // An executor that changes its content with every page is news once.
            if agreed {
                tracing::warn!(
                    model = known.name,
                    gpu = gpu.0,
                    "most executors have another content of the model; this one gets no requests for it"
                );
            }
            return Told::Other;
        }
        if current == Some(identity) {
            Told::Known
        } else {
            Told::New
        }
    }

    /// Takes a new content of a model, which an executor reports.
    ///
    /// # Errors
    ///
    /// The limit on parts of a pool. The model keeps its content.
    pub(super) fn learn(
        &mut self,
        scheduler: &mut GpuScheduler,
        (id, gpu): (ModelId, GpuId),
        identity: &str,
        parts: Vec<Part>,
    ) -> Result<(), PageError> {
        let Some(known) = self.all.get_mut(id.0 as usize) else {
            return Ok(());
        };
        let before = known.content.as_ref().map_or(0, |content| content.parts);
        let others = self.parts.saturating_sub(before);
        let all = others.saturating_add(parts.len());
        if all > PARTS_OF_POOL {
            return Err(PageError::PartsOfPool {
                model: known.name.clone(),
                parts: parts.len(),
                all,
            });
        }
        self.parts = all;
        known.told.insert(gpu, identity.into());
        known.content = Some(Content {
            identity: identity.into(),
            parts: parts.len(),
        });
        scheduler.set_model(id, of(parts, known.times));
        Ok(())
    }

    /// Notes that an executor does not tell the content of a model any more.
    pub(super) fn untell(&mut self, scheduler: &mut GpuScheduler, id: ModelId, gpu: GpuId) {
        let Some(known) = self.all.get_mut(id.0 as usize) else {
            return;
        };
        known.told.remove(&gpu);
        let Some(content) = &known.content else {
            return;
        };
        if !known.told.values().any(|told| *told == content.identity) {
            self.parts = self.parts.saturating_sub(content.parts);
            known.content = None;
            scheduler.set_model(id, of(Vec::new(), known.times));
        }
    }
}

const fn of(parts: Vec<Part>, times: Times) -> GpuModel {
    GpuModel {
        parts,
        setup_us: 0,
        infer_us: times.infer_us,
        after_load_us: times.after_load_us,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tetris_scaler_dispatch::gpu::{LoadBalancing, ObjectId, Topology};

    use super::super::limits::PARTS_OF_MODEL;
    use super::*;

    #[test]
    fn contents_above_the_limit_of_the_pool_are_refused_until_others_are_forgotten() {
        let mut scheduler =
            GpuScheduler::new(Arc::new(LoadBalancing), Topology::default(), Vec::new());
        let mut models = Models::default();
        let times = Times {
            infer_us: 1,
            after_load_us: 1,
        };
        let parts = || {
            let objects = (0..PARTS_OF_MODEL as u64).map(ObjectId);
            objects.map(|object| Part { object, bytes: 1 }).collect()
        };
        let fit = PARTS_OF_POOL / PARTS_OF_MODEL;
        let ids: Vec<ModelId> = (0..=fit)
            .map(|number| models.number(&mut scheduler, &number.to_string(), times))
            .collect();
        let (last, others) = ids.split_last().unwrap();
        for &id in others {
            let from = (id, GpuId(0));
            models
                .learn(&mut scheduler, from, "content", parts())
                .unwrap();
            // Its own parts count once.
            models
                .learn(&mut scheduler, from, "another", parts())
                .unwrap();
        }
        let from = (*last, GpuId(1));
        let error = models.learn(&mut scheduler, from, "c", parts());
        let error = error.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("make 1064960 in the pool, expected 1048576"),
            "{error}"
        );
        models.untell(&mut scheduler, ids[0], GpuId(0));
        models.learn(&mut scheduler, from, "c", parts()).unwrap();
        assert!(models.is_new(ids[0], "another"));
    }
}
