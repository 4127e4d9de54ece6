//! Numbers of models by name, and their contents.

use std::collections::{BTreeSet, HashMap};

use tetris_scaler_dispatch::gpu::{GpuId, GpuModel, GpuScheduler, ModelId, Part};

use super::limits::PARTS_OF_POOL;
use super::page_error::PageError;

/// Models of the functions of a pool. Their numbers stay the same for its life. A content is forgotten once no executor
/// tells it.
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
    times: Times,
}

/// Content of a model, which an executor has told.
#[derive(Debug)]
struct Content {
    identity: Box<str>,
    /// Number of its parts.
    parts: usize,
    /// Executors whose last page had it.
    told_by: BTreeSet<GpuId>,
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

    /// Notes that an executor tells a content whose parts are known.
    pub(super) fn tell(&mut self, id: ModelId, gpu: GpuId) {
        let known = self.all.get_mut(id.0 as usize);
        if let Some(content) = known.and_then(|known| known.content.as_mut()) {
            content.told_by.insert(gpu);
        }
    }

    /// Takes a new content of a model, which an executor tells.
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
        known.content = Some(Content {
            identity: identity.into(),
            parts: parts.len(),
            told_by: BTreeSet::from([gpu]),
        });
        scheduler.set_model(id, of(parts, known.times));
        Ok(())
    }

    /// Notes that an executor does not tell the content of a model any more.
    pub(super) fn untell(&mut self, scheduler: &mut GpuScheduler, id: ModelId, gpu: GpuId) {
        let Some(known) = self.all.get_mut(id.0 as usize) else {
            return;
        };
        let Some(content) = &mut known.content else {
            return;
        };
        if content.told_by.remove(&gpu) && content.told_by.is_empty() {
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
