//! Models and applications of the paper's evaluation (Tetris 5.1, table 4).
//!
//! **From the paper:** the models of each application; sizes (table 4); Fastspeech2 and Use do not
//! support batching (5.3); both Resnet152 have the same pretrained parameters (5.3) and only their
//! dense layers are retrained (5.2); the 30 ms of Lstm (figure 5); the values of B and P (3.2).
//! Private memory of Use, Lstm, Dssm and Textcnn69 follows from the densities and reductions of
//! 5.2: Use takes 1.72 GB and saves 93 % at 32 instances; Lstm saves 4.4 % at two; 256 GB hold
//! 1,161 more instances of Dssm and 1,720 more of Textcnn69 with shared tensors.
//!
//! **Assumed:** everything marked as assumed below and in [`ModelAssumptions`]: work per request,
//! objectives, memory per request, other private memory, and the law of latency
//! ([`PaperModel::latency_us`]). Work and threads of Use are fitted: INFless takes 2.0 times Photons'
//! memory in SS, as 5.3 implies (69 and 37 % less for Tetris). With the assumed
//! objectives of Resnet152 and QA-Audio, concurrency alone reaches the two and four threads of 5.3.

mod application;
mod assumptions;
mod model;
mod table4;

use tetris_scaler_core::{ModelTensors, Profile, Slo};
use tetris_store_layout::ObjectId;

use crate::error::SimulationError;

pub use application::Application;
pub use assumptions::ModelAssumptions;
pub use model::{BATCHES, CPU_MILLIS, MB, MODELS, PaperModel, THREADS};
pub use table4::{PrivateFrom, TABLE_4, TableModel};

/// Megabytes of Resnet152 that both variants share: all but the dense layer, 2,048 x 1,000 weights
/// of four bytes.
const RESNET152_SHARED_MB: u64 = 223;

/// A function as a scaler sees it.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name of model and variant, for messages.
    pub name: String,
    /// Model of the function.
    pub model: PaperModel,
    /// All configurations of the model.
    pub profile: Profile,
    /// Latency objective.
    pub slo: Slo,
    /// Tensors of the model.
    pub tensors: ModelTensors,
    /// The model's file as a whole: the same bytes, shared by no one but processes of this file.
    pub file: ModelTensors,
}

impl Function {
    /// Creates the function of a model; `variant` names a variant of the model, or is empty. The
    /// model's properties are multiplied with `assumptions`.
    ///
    /// # Errors
    ///
    /// Fails if a value is out of the core's range.
    pub fn try_new(
        model: PaperModel,
        variant: &str,
        assumptions: &ModelAssumptions,
    ) -> Result<Self, SimulationError> {
        let model = assumptions.of(model);
        let object = |part: &str| ObjectId::of(format!("{}/{part}", model.name).as_bytes());
        let own_mb = model.tensor_mb.saturating_sub(RESNET152_SHARED_MB);
        let tensors = if variant.is_empty() {
            vec![(object("all"), model.tensor_mb * MB)]
        } else {
            vec![
                (object("base"), RESNET152_SHARED_MB * MB),
                (object(variant), own_mb * MB),
            ]
        };
        let file = vec![(object(&format!("file/{variant}")), model.tensor_mb * MB)];
        let separator = if variant.is_empty() { "" } else { "-" };
        Ok(Self {
            name: format!("{}{separator}{variant}", model.name),
            model,
            profile: model.profile(assumptions.max_cpu_millis)?,
            slo: Slo::try_from_us(model.slo_us)?,
            tensors: ModelTensors::try_new(tensors)?,
            file: ModelTensors::try_new(file)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::model::RESNET152;
    use super::*;
    use tetris_scaler_core::Configuration;

    #[test]
    fn every_function_has_a_configuration_that_meets_its_objective() {
        for application in Application::ALL {
            for &(model, variant) in application.stages().iter().copied().flatten() {
                let function =
                    Function::try_new(model, variant, &ModelAssumptions::default()).unwrap();
                assert!(
                    function.profile.feasible(function.slo).count() > 3,
                    "{}",
                    function.name
                );
                assert_eq!(function.tensors.total_bytes(), model.tensor_mb * MB);
                let batches = |one: &Configuration| one.batch() > 1;
                let batched = function.profile.configurations().iter().any(batches);
                assert_eq!(batched, model.batchable);
            }
        }
    }

    #[test]
    fn variants_share_all_but_their_dense_layer() {
        let assumed = ModelAssumptions::default();
        let cars = Function::try_new(RESNET152, "cars", &assumed).unwrap();
        let motorcycles = Function::try_new(RESNET152, "motorcycles", &assumed).unwrap();
        let (a, b) = (cars.tensors.objects(), motorcycles.tensors.objects());
        let common: u64 = a
            .iter()
            .filter(|entry| b.contains(entry))
            .map(|(_, bytes)| bytes)
            .sum();
        assert_eq!(common, 223 * MB);
        assert_eq!(cars.name, "Resnet152-cars");
        assert_ne!(cars.file.objects(), motorcycles.file.objects());
    }
}
