//! Invented properties of models and loads, as factors that a sweep can vary.

use serde::{Deserialize, Serialize};

use super::{Application, PaperModel};

/// Factors and shares, in thousandths where no unit is given; a factor of 1,000 changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAssumptions {
    /// Factor of all loads.
    pub load_permille: u64,
    /// Load of SS, as a multiple of that of SVT.
    pub ss_load: u64,
    /// Load of QA-Text, as a multiple of that of SVT.
    pub qa_text_load: u64,
    /// Share of SVT's requests that the first Resnet152 gets.
    pub branch_permille: u64,
    /// Factor of the work of a request.
    pub work_permille: u64,
    /// Share of the work that only one core can do (Amdahl).
    pub serial_permille: u64,
    /// Factor of the cost of a further thread.
    pub thread_permille: u64,
    /// Factor of the share of work that a batch does once.
    pub once_permille: u64,
    /// Factor of the objectives.
    pub slo_permille: u64,
    /// Factor of the private memory of those models for which the paper implies none.
    pub private_permille: u64,
    /// Factor of the memory of each further request in flight.
    pub request_permille: u64,
    /// Maximum CPU of an instance, in millicores.
    pub max_cpu_millis: u64,
}

impl Default for ModelAssumptions {
    fn default() -> Self {
        Self {
            load_permille: 1_000,
            ss_load: 3,
            qa_text_load: 25,
            branch_permille: 500,
            work_permille: 1_000,
            serial_permille: 100,
            thread_permille: 1_000,
            once_permille: 1_000,
            slo_permille: 1_000,
            private_permille: 1_000,
            request_permille: 1_000,
            max_cpu_millis: 8_000,
        }
    }
}

impl ModelAssumptions {
    /// Load of an application relative to that of SVT. With the defaults each application keeps
    /// about as many cores busy. Assumed; the paper's text gives no loads.
    pub const fn load_factor(&self, application: Application) -> u64 {
        match application {
            Application::Svt | Application::QaAudio => 1,
            Application::Ss => self.ss_load,
            Application::QaText => self.qa_text_load,
        }
    }

    /// Returns `model` with these factors.
    pub fn of(&self, model: PaperModel) -> PaperModel {
        let scaled = |value: u64, permille: u64| (value * permille / 1_000).max(1);
        let own_permille = if model.own_from_paper {
            1_000
        } else {
            self.private_permille
        };
        PaperModel {
            work_us: scaled(model.work_us, self.work_permille),
            serial_permille: self.serial_permille.min(1_000),
            thread_permille: model.thread_permille * self.thread_permille / 1_000,
            once_permille: (model.once_permille * self.once_permille / 1_000).min(1_000),
            slo_us: scaled(model.slo_us, self.slo_permille),
            own_mb: scaled(model.own_mb, own_permille),
            request_mb: scaled(model.request_mb, self.request_permille),
            ..model
        }
    }
}
