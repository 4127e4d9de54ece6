//! Problems with engines.

use thiserror::Error;

use crate::resources::FieldProblem;

/// The reason a function has no template of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineProblem {
    /// No such model.
    #[error(
        "`spec.model`: found no Model {0:?} in the namespace; create it, e.g. with `tetris-scaler deploy`"
    )]
    NoModel(String),
    /// A model whose files no node has yet.
    #[error(
        "the engine is chosen by the files of the model {0:?}, which no node has yet: see `kubectl describe model {0}`; or name one in spec.engine.name"
    )]
    Undescribed(String),
    /// An engine without a PodTemplate.
    #[error("`spec.engine.name`: found {name:?}, expected an installed engine: {}; an engine is a PodTemplate tetris-engine-NAME in the operator's namespace", listed(.installed))]
    NotInstalled {
        /// Name of the engine.
        name: String,
        /// Names of the installed ones.
        installed: Vec<String>,
    },
    /// A model that no installed engine serves.
    #[error(
        "no installed engine serves {model}; installed: {}; name one in spec.engine.name, or install another",
        listed(.installed)
    )]
    Unserved {
        /// Description of the model.
        model: String,
        /// Installed engines with what they serve.
        installed: Vec<String>,
    },
    /// An unusable template.
    #[error("PodTemplate tetris-engine-{engine}: {problem}")]
    Template {
        /// Name of the engine.
        engine: String,
        /// The wrong field.
        problem: FieldProblem,
    },
}

impl EngineProblem {
    /// The reason in one word, for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoModel(_) => "ModelNotFound",
            Self::Undescribed(_) => "ModelNotPresent",
            Self::NotInstalled { .. } => "EngineNotInstalled",
            Self::Unserved { .. } => "NoEngine",
            Self::Template { .. } => "InvalidEngine",
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
