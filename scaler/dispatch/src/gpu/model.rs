//! Models as GPUs see them.

/// Number of a model, its place in the scheduler's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u32);

/// Number of a tensor or of tensors that stay together, by content: equal numbers are equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// A part of a model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Content of the part.
    pub object: ObjectId,
    /// Number of bytes in device memory.
    pub bytes: u64,
}

/// A profiled model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// Parts of the model, each object once.
    pub parts: Vec<Part>,
    /// Time of a load that does not depend on the number of bytes, in microseconds.
    pub setup_us: u64,
    /// Time of an inference with all weights in place, in microseconds.
    pub infer_us: u64,
    /// Part of the inference that follows the last byte of a load, in microseconds: all of
    /// `infer_us` where load and inference do not overlap.
    pub after_load_us: u64,
}

impl GpuModel {
    /// Number of bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(part.bytes))
    }

    /// Time from the dispatch to the result with a transfer of `transfer_us`, in microseconds.
    pub fn service_us(&self, transfer_us: u64) -> u64 {
        let computed = self.setup_us.saturating_add(self.infer_us);
        let loaded = self.setup_us.saturating_add(transfer_us);
        computed.max(loaded.saturating_add(self.after_load_us))
    }
}
