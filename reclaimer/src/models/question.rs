//! Questions for models, from `volumes` to `broker`: `POST /models/state`.

use serde::{Deserialize, Serialize};
use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{ModelReport, ModelStage, is_model_name};

use super::ModelKey;

/// A question for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelQuestion {
    /// Name of the store.
    pub store: String,
    /// Number of the pods' trust domain.
    pub domain: u32,
    /// Name of the model.
    pub model: String,
}

impl ModelQuestion {
    /// The model; `None` if there is no such domain or name.
    pub fn key(&self) -> Option<ModelKey> {
        // As `TrustDomain::code` has it.
        const PODS: u32 = 2;
        let domain = TrustDomain::from_code(PODS, self.domain)?;
        is_model_name(&self.model).then(|| ModelKey {
            store: self.store.clone(),
            domain,
            name: self.model.clone(),
        })
    }
}

/// State of a model on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum ModelState {
    /// No pod keeps it here.
    Absent,
    /// It is being fetched.
    Pulling {
        /// Bytes in the store.
        done: u64,
        /// Bytes of all files; 0 before they are known.
        total: u64,
        /// Bytes fetched per second of late.
        bytes_per_second: u64,
    },
    /// It is in the store, and held there.
    Present {
        /// The mount that shows it; 0 if there is none.
        mount: u64,
    },
    /// It could not be fetched, and is tried again.
    Failed {
        /// The reason.
        problem: String,
    },
}

impl From<&ModelReport> for ModelState {
    fn from(report: &ModelReport) -> Self {
        match report.stage {
            ModelStage::Pulling | ModelStage::Blocked => Self::Pulling {
                done: report.done,
                total: report.total,
                bytes_per_second: report.bytes_per_second,
            },
            ModelStage::Present => Self::Present {
                mount: report.mount,
            },
            ModelStage::Failed => Self::Failed {
                problem: report.problem.clone(),
            },
        }
    }
}
