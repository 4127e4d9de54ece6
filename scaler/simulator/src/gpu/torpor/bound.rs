//! Early binding: each function has its memory on one GPU for good.

use tetris_scaler_dispatch::gpu::GpuRequest;

use crate::gpu::record::{GpuRecords, Record};

use super::node::NodeSetting;

/// Runs functions on the GPUs that had room for them, requests of each GPU in their order.
/// `native` counts the whole container, else the weights alone (NonSwap).
pub(super) fn run(
    setting: &NodeSetting,
    requests: &[GpuRequest],
    memory_mb: u64,
    native: bool,
) -> GpuRecords {
    let mut free_mb = vec![memory_mb; setting.gpus as usize];
    let homes: Vec<Option<usize>> = (0..setting.functions)
        .map(|function| {
            let (_, kind) = setting.kind(function)?;
            let needed = if native { kind.native_mb } else { kind.mb };
            let (gpu, free) = free_mb
                .iter_mut()
                .enumerate()
                .max_by_key(|(gpu, free)| (**free, std::cmp::Reverse(*gpu)))?;
            *free = free.checked_sub(needed)?;
            Some(gpu)
        })
        .collect();
    let mut records = GpuRecords::new(setting.gpus as usize);
    let mut free_us = vec![0; setting.gpus as usize];
    for request in requests {
        let home = homes.get(request.function as usize).copied().flatten();
        let free = home.and_then(|gpu| free_us.get_mut(gpu));
        let (Some(free), Some((_, kind))) = (free, setting.kind(request.function)) else {
            records.add(Record::refused(request));
            continue;
        };
        let start_us = request.arrived_us.max(*free);
        *free = start_us + kind.infer_us;
        records.add(Record {
            latency_us: Some(*free - request.arrived_us),
            service_us: kind.infer_us,
            ..Record::refused(request)
        });
    }
    records
}
