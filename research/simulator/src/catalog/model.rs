//! Models with their memory and latency.

use serde::Serialize;
use tetris_scaler_core::{Configuration, ConfigurationSpec, Profile};

use crate::error::SimulationError;

/// Number of bytes in a megabyte, as in the paper.
pub const MB: u64 = 1_000_000;

/// Values of C: CPU of an instance, in millicores. Assumed.
pub const CPU_MILLIS: [u64; 5] = [1_000, 2_000, 4_000, 6_000, 8_000];
/// Values of B: batch sizes (Tetris 3.2).
pub const BATCHES: [u32; 3] = [1, 2, 4];
/// Values of P: concurrent threads (Tetris 3.2).
pub const THREADS: [u32; 4] = [1, 2, 3, 4];

/// Properties of a model, from the paper or assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PaperModel {
    /// Name as in table 4.
    pub name: &'static str,
    /// Size of the tensors in memory, in megabytes: table 4, except for Use, which takes more than
    /// its file.
    pub tensor_mb: u64,
    /// Private memory of an instance with one thread and no batch, in megabytes.
    pub own_mb: u64,
    /// True if `own_mb` follows from numbers of the paper; otherwise it is assumed.
    pub own_from_paper: bool,
    /// Memory of each further request in flight, in megabytes. Assumed.
    pub request_mb: u64,
    /// Time of one request on one core, in microseconds. Assumed.
    pub work_us: u64,
    /// Share of the work that only one core can do, in thousandths. Assumed.
    pub serial_permille: u64,
    /// Cost of each further thread, in thousandths of the latency of one. Assumed; that of Use is
    /// fitted to the paper's ratios in SS, with its work.
    pub thread_permille: u64,
    /// Share of the work that a batch does once, in thousandths. Assumed.
    pub once_permille: u64,
    /// True if the model supports batching (Tetris 5.3).
    pub batchable: bool,
    /// Latency objective, in microseconds. Assumed, except for Lstm.
    pub slo_us: u64,
}

/// Defaults of the assumed properties.
const ASSUMED: PaperModel = PaperModel {
    name: "",
    tensor_mb: 0,
    own_mb: 95,
    own_from_paper: false,
    request_mb: 10,
    work_us: 0,
    serial_permille: 100,
    thread_permille: 50,
    once_permille: 200,
    batchable: true,
    slo_us: 0,
};

pub(super) const SSD: PaperModel = PaperModel {
    name: "SSD",
    tensor_mb: 29,
    work_us: 150_000,
    slo_us: 200_000,
    ..ASSUMED
};
pub(super) const RESNET152: PaperModel = PaperModel {
    name: "Resnet152",
    tensor_mb: 231,
    request_mb: 20,
    work_us: 600_000,
    slo_us: 350_000,
    ..ASSUMED
};
pub(super) const STT: PaperModel = PaperModel {
    name: "Stt",
    tensor_mb: 176,
    work_us: 500_000,
    slo_us: 400_000,
    ..ASSUMED
};
pub(super) const USE_QA: PaperModel = PaperModel {
    name: "Use-qa",
    tensor_mb: 568,
    work_us: 120_000,
    slo_us: 200_000,
    ..ASSUMED
};
pub(super) const FASTSPEECH2: PaperModel = PaperModel {
    name: "Fastspeech2",
    tensor_mb: 119,
    work_us: 300_000,
    batchable: false,
    slo_us: 300_000,
    ..ASSUMED
};
pub(super) const USE: PaperModel = PaperModel {
    name: "Use",
    tensor_mb: 1_651,
    own_mb: 69,
    own_from_paper: true,
    work_us: 110_000,
    thread_permille: 250,
    batchable: false,
    slo_us: 100_000,
    ..ASSUMED
};
pub(super) const TEXTCNN: PaperModel = PaperModel {
    name: "Textcnn69",
    tensor_mb: 11,
    own_mb: 35,
    own_from_paper: true,
    request_mb: 2,
    work_us: 10_000,
    once_permille: 500,
    slo_us: 30_000,
    ..ASSUMED
};
pub(super) const LSTM: PaperModel = PaperModel {
    name: "Lstm",
    tensor_mb: 23,
    own_mb: 238,
    work_us: 12_000,
    ..TEXTCNN
};
pub(super) const DSSM: PaperModel = PaperModel {
    name: "Dssm",
    tensor_mb: 25,
    own_mb: 63,
    work_us: 8_000,
    ..TEXTCNN
};

/// All models, for reports that list the assumptions.
pub const MODELS: [PaperModel; 9] = [
    SSD,
    RESNET152,
    STT,
    USE_QA,
    FASTSPEECH2,
    USE,
    TEXTCNN,
    LSTM,
    DSSM,
];

impl PaperModel {
    /// Latency of a batch, in microseconds. Assumed: a thread has an equal share of the cores, and
    /// `serial_permille` of its work are on one core (Amdahl). With less than one core all of the
    /// work slows down. Each further thread costs `thread_permille`, and a batch does
    /// `once_permille` of the work once.
    pub const fn latency_us(&self, cpu_millis: u64, batch: u64, threads: u64) -> u64 {
        let threads = if threads == 0 { 1 } else { threads };
        let share = cpu_millis / threads;
        let share = if share == 0 { 1 } else { share };
        let cores_permille = if share < 1_000 {
            1_000_000 / share
        } else {
            self.serial_permille + (1_000 - self.serial_permille) * 1_000 / share
        };
        let batch_permille = self.once_permille + (1_000 - self.once_permille) * batch;
        let beside_permille = 1_000 + self.thread_permille * (threads - 1);
        // At most 2^24 us, and factors of at most 2^20, 2^12 and 2^14: no overflow.
        let work = self.work_us * cores_permille / 1_000 * batch_permille / 1_000;
        let latency_us = work * beside_permille / 1_000;
        if latency_us == 0 { 1 } else { latency_us }
    }

    /// Private memory of an instance, in bytes.
    pub const fn own_bytes(&self, batch: u64, threads: u64) -> u64 {
        (self.own_mb + self.request_mb * (batch * threads).saturating_sub(1)) * MB
    }

    /// Returns all combinations of C up to `max_cpu_millis`, B and P, without batches if the model
    /// does not support them.
    pub(super) fn profile(&self, max_cpu_millis: u64) -> Result<Profile, SimulationError> {
        let mut all = Vec::new();
        for cpu_millis in CPU_MILLIS.into_iter().filter(|&cpu| cpu <= max_cpu_millis) {
            for batch in BATCHES
                .into_iter()
                .filter(|&batch| batch == 1 || self.batchable)
            {
                for concurrency in THREADS {
                    let (b, p) = (batch.into(), concurrency.into());
                    all.push(Configuration::try_new(ConfigurationSpec {
                        cpu_millis,
                        own_bytes: self.own_bytes(b, p),
                        shared_bytes: self.tensor_mb * MB,
                        batch,
                        concurrency,
                        latency_us: self.latency_us(cpu_millis, b, p),
                        rate_millis: None,
                        gpu: None,
                    })?);
                }
            }
        }
        Ok(Profile::try_new(all)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_what_the_papers_numbers_leave() {
        // Reduction by sharing: 1 - (t + i o) / (i (t + o)), in thousandths.
        let saved = |model: &PaperModel, instances: u64| {
            let (t, o) = (model.tensor_mb, model.own_mb);
            1_000 - (t + instances * o) * 1_000 / (instances * (t + o))
        };
        assert!(
            (929..=932).contains(&saved(&USE, 32)),
            "{}",
            saved(&USE, 32)
        );
        assert!((43..=45).contains(&saved(&LSTM, 2)), "{}", saved(&LSTM, 2));
        let denser = |model: &PaperModel| {
            let (t, o) = (model.tensor_mb, model.own_mb);
            (256_000 - t) / o - 256_000 / (t + o)
        };
        assert!(denser(&DSSM).abs_diff(1_161) < 20, "{}", denser(&DSSM));
        assert!(
            denser(&TEXTCNN).abs_diff(1_720) < 40,
            "{}",
            denser(&TEXTCNN)
        );
        assert_eq!(USE.tensor_mb + USE.own_mb, 1_720);
    }

    #[test]
    fn latency_grows_with_batch_and_threads_and_falls_with_cores() {
        assert_eq!(RESNET152.latency_us(1_000, 1, 1), 600_000);
        assert_eq!(RESNET152.latency_us(2_000, 1, 1), 330_000);
        assert_eq!(RESNET152.latency_us(1_000, 1, 2), 1_260_000);
        assert_eq!(RESNET152.latency_us(1_000, 4, 1), 2_040_000);
    }
}
