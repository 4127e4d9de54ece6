//! Engines: templates of servers, in the operator's namespace, for functions that name a model instead of a template.

mod choice;
mod error;
mod served;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use error::EngineProblem;
pub use served::ServedModel;
pub use template::EngineTemplate;

use crate::resources::{CheckedFunction, CheckedTemplate, PodSource};
use crate::state::Key;

/// Engines and models at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownEngines {
    /// Templates by the name of the engine.
    pub engines: BTreeMap<String, Arc<EngineTemplate>>,
    /// Models by namespace and name.
    pub models: BTreeMap<Key, ServedModel>,
}

/// A template for a function's pods, with the version of what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedTemplate {
    /// Differs if anything differs.
    pub version: String,
    /// The template.
    pub template: Result<Arc<CheckedTemplate>, EngineProblem>,
    /// Protocol of the engine's server, if it is not the Open Inference Protocol.
    pub other_protocol: Option<String>,
}

impl KnownEngines {
    /// Returns the template of a function's pods, and its version. It makes no template where `is_current` is true for the
    /// version.
    pub fn template(
        &self,
        function: &CheckedFunction,
        is_current: impl FnOnce(&str) -> bool,
    ) -> Option<ResolvedTemplate> {
        let mut other_protocol = None;
        let (version, template) = match &function.pods {
            PodSource::Template(template) => {
                let version = String::new();
                if is_current(&version) {
                    return None;
                }
                (version, Ok(Arc::clone(template)))
            }
            PodSource::Engine(spec) => {
                let name = function.model.clone().unwrap_or_default();
                let key = Key::new(function.namespace.clone(), name.clone());
                let model = self.models.get(&key);
                let chosen = choice::choose(spec, &name, model, &self.engines);
                let version = match (&chosen, model) {
                    (Ok(engine), Some(model)) => {
                        format!("{}/{}/{}", engine.name, engine.version, model.account)
                    }
                    (Ok(_), None) => "no model".to_owned(),
                    (Err(problem), _) => problem.to_string(),
                };
                if is_current(&version) {
                    return None;
                }
                let template = chosen.and_then(|engine| {
                    other_protocol.clone_from(&engine.other_protocol);
                    let model = model.ok_or_else(|| EngineProblem::NoModel(name.clone()))?;
                    engine.for_model(spec, &name, &model.account).map(Arc::new)
                });
                (version, template)
            }
        };
        Some(ResolvedTemplate {
            version,
            template,
            other_protocol,
        })
    }
}

/// The latest engines and models. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Engines(Arc<Mutex<Arc<KnownEngines>>>);

impl Engines {
    /// Returns the latest engines and models.
    pub fn latest(&self) -> Arc<KnownEngines> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what is known now. Returns true if it differs.
    pub fn set(&self, known: KnownEngines) -> bool {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = **latest != known;
        if differs {
            *latest = Arc::new(known);
        }
        differs
    }
}
