//! Memory of GPUs for containers.

/// Free memory of each GPU, in megabytes.
pub(super) struct FreeMemory(Vec<u64>);

impl FreeMemory {
    pub(super) fn new(gpus: u32, memory_mb: u64) -> Self {
        Self(vec![memory_mb; gpus as usize])
    }

    /// Takes memory of the GPU with most. Returns its number; nothing if no GPU has enough.
    pub(super) fn take(&mut self, mb: u64) -> Option<usize> {
        let numbered = self.0.iter_mut().enumerate();
        let (gpu, free) = numbered.max_by_key(|(gpu, free)| (**free, std::cmp::Reverse(*gpu)))?;
        *free = free.checked_sub(mb)?;
        Some(gpu)
    }

    /// Gives memory of a GPU back.
    pub(super) fn give_back(&mut self, gpu: usize, mb: u64) {
        if let Some(free) = self.0.get_mut(gpu) {
            *free += mb;
        }
    }
}
