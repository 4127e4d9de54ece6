//! GPU of a measurement: its type and known properties, and the time of a batch there.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{GpuNeeds, GpuType, WHOLE_GPU_PERMILLE};

/// GPU that the instances use. The profiler starts them on the machine's devices as they are, and
/// takes these properties as given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileGpu {
    /// Type of the GPU: the product's name, as the driver reports it.
    pub kind: GpuType,
    /// Private device memory of an instance, in bytes.
    pub own_bytes: u64,
    /// Rate of loads from host memory to the device, in bytes per second.
    pub bytes_per_second: Option<u64>,
}

/// Measurement on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementOnGpu {
    /// The GPU.
    pub gpu: ProfileGpu,
    /// Mean time of a batch on the GPU, in microseconds; `None` if the server does not tell it.
    pub inference_micros: Option<u64>,
}

impl MeasurementOnGpu {
    /// Returns the needs of an instance that runs `batches_per_second`.
    pub(crate) fn needs(&self, batches_per_second: f64) -> GpuNeeds {
        let share = self.inference_micros.map(|micros| {
            // The share of each second, in thousandths; a float's cast saturates.
            (batches_per_second * micros as f64 / 1e3).ceil() as u32
        });
        GpuNeeds {
            kind: self.gpu.kind,
            own_bytes: self.gpu.own_bytes,
            share_permille: share
                .unwrap_or(WHOLE_GPU_PERMILLE)
                .clamp(1, WHOLE_GPU_PERMILLE),
        }
    }
}

/// Batches that a server has run, and the time of their computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Computed {
    batches: u64,
    nanos: u64,
}

impl Computed {
    /// Reads the answer to `/v2/models/NAME/stats`, Triton's statistics extension. Returns `None`
    /// without batches in it.
    pub(crate) fn read(answer: &[u8]) -> Option<Self> {
        let answer: Statistics = serde_json::from_slice(answer).ok()?;
        let batches = answer
            .model_stats
            .iter()
            .flat_map(|model| &model.batch_stats);
        let computed = batches.map(|batch| &batch.compute_infer);
        let sum = computed.fold(Self::default(), |sum, one| Self {
            batches: sum.batches.saturating_add(one.count),
            nanos: sum.nanos.saturating_add(one.ns),
        });
        (sum.batches > 0).then_some(sum)
    }

    /// Returns the mean time of the batches since `before`, in microseconds, rounded up.
    pub(crate) fn micros_since(self, before: Self) -> Option<u64> {
        let batches = self.batches.checked_sub(before.batches)?;
        let nanos = self.nanos.checked_sub(before.nanos)?;
        let micros = nanos.div_ceil(batches.checked_mul(1_000)?.max(1));
        (batches > 0).then_some(micros.max(1))
    }
}

#[derive(Deserialize)]
struct Statistics {
    model_stats: Vec<ModelStatistics>,
}

#[derive(Deserialize)]
struct ModelStatistics {
    #[serde(default)]
    batch_stats: Vec<BatchStatistics>,
}

#[derive(Deserialize)]
struct BatchStatistics {
    compute_infer: Duration,
}

#[derive(Deserialize)]
struct Duration {
    count: u64,
    ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_all_sizes_count_and_only_those_since_the_last_look() {
        let read = |text: &str| Computed::read(text.as_bytes());
        let before = read(
            r#"{"model_stats":[{"name":"m","inference_count":3,"batch_stats":[
                {"batch_size":1,"compute_infer":{"count":3,"ns":3000},"compute_input":{"count":3,"ns":1}}]}]}"#,
        );
        let after = read(
            r#"{"model_stats":[{"batch_stats":[
                {"batch_size":1,"compute_infer":{"count":5,"ns":7000}},
                {"batch_size":4,"compute_infer":{"count":2,"ns":10001}}]}]}"#,
        );
        let (before, after) = (before.unwrap(), after.unwrap());
        // Four batches in 14,001 ns.
        assert_eq!(after.micros_since(before), Some(4));
        assert_eq!(
            before.micros_since(after),
            None,
            "a server that was restarted"
        );
        assert_eq!(after.micros_since(after), None);
        for none in ["", "{}", r#"{"model_stats":[]}"#, r#"{"model_stats":[{}]}"#] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn the_share_is_the_time_of_the_batches_of_a_second() {
        let on = |inference_micros| MeasurementOnGpu {
            gpu: ProfileGpu {
                kind: "Tesla T4".parse().unwrap(),
                own_bytes: 1,
                bytes_per_second: None,
            },
            inference_micros,
        };
        assert_eq!(on(Some(10_000)).needs(15.0).share_permille, 150);
        assert_eq!(on(Some(10_000)).needs(1e9).share_permille, 1_000);
        assert_eq!(on(Some(1)).needs(0.0).share_permille, 1);
        assert_eq!(on(None).needs(0.1).share_permille, 1_000);
    }
}
