//! Numbers of models and of their parts, by name and by content.

use std::collections::{HashMap, HashSet};

use tetris_scaler_dispatch::gpu::{GpuModel, GpuScheduler, ModelId, ObjectId, Part};

use super::status::PartStatus;

/// Numbers of models, which stay the same for the life of the pool, and of their parts.
#[derive(Debug, Default)]
pub(super) struct Models {
    all: Vec<Known>,
    by_name: HashMap<String, ModelId>,
    /// Numbers of the parts of all models, by content.
    objects: HashMap<String, ObjectId>,
    /// Number of the next part that was not seen before.
    next_object: u64,
}

/// A model by its name at the executors.
#[derive(Debug)]
struct Known {
    name: String,
    /// Identity of its content, once an executor told it.
    content: Option<String>,
    times: Times,
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
    pub(super) fn ids(&self) -> impl Iterator<Item = ModelId> {
        (0..self.all.len() as u32).map(ModelId)
    }

    /// Name of a model at the executors.
    pub(super) fn name(&self, id: ModelId) -> &str {
        self.all.get(id.0 as usize).map_or("", |known| &known.name)
    }

    /// Returns true if the parts of the model with this content are not known.
    pub(super) fn is_new(&self, id: ModelId, content: &str) -> bool {
        let known = self.all.get(id.0 as usize);
        known.is_some_and(|known| known.content.as_deref() != Some(content))
    }

    /// Notes the content of a model.
    pub(super) fn learn(
        &mut self,
        scheduler: &mut GpuScheduler,
        id: ModelId,
        content: &str,
        parts: &[PartStatus],
    ) {
        let Some(known) = self.all.get_mut(id.0 as usize) else {
            return;
        };
        known.content = Some(content.to_owned());
        let mut of_model: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            let next = &mut self.next_object;
            let object = *self.objects.entry(part.id.clone()).or_insert_with(|| {
                let object = ObjectId(*next);
                *next = next.saturating_add(1);
                object
            });
            let bytes = part.bytes;
            of_model.push(Part { object, bytes });
        }
        of_model.sort_unstable_by_key(|part| part.object);
        of_model.dedup_by_key(|part| part.object);
        scheduler.set_model(id, of(of_model, known.times));
        self.forget_parts(scheduler);
    }

    /// Number of parts that are known.
    #[cfg(test)]
    pub(super) fn parts(&self) -> usize {
        self.objects.len()
    }

    /// Forgets the parts that no model has any more.
    fn forget_parts(&mut self, scheduler: &GpuScheduler) {
        let models = self.ids().filter_map(|id| scheduler.model(id));
        let used: HashSet<ObjectId> = models
            .flat_map(|model| model.parts.iter().map(|part| part.object))
            .collect();
        if used.len() < self.objects.len() {
            self.objects.retain(|_, object| used.contains(object));
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
