//! Early binding: each function has its memory on one GPU for good.

use tetris_scaler_dispatch::gpu::GpuRequest;

use crate::gpu::record::{GpuRecords, Record};

use super::containers::FreeMemory;
use super::node::NodeSetting;

/// Runs functions on the GPUs that had room for them, requests of each GPU in their order.
/// `native` counts the whole container, else the weights alone (NonSwap).
pub(super) fn run(
    setting: &NodeSetting,
    requests: &[GpuRequest],
    memory_mb: u64,
    native: bool,
) -> GpuRecords {
    let mut memory = FreeMemory::new(setting.gpus, memory_mb);
    let homes: Vec<Option<usize>> = (0..setting.functions)
        .map(|function| {
            let (_, kind) = setting.kind(function)?;
            let needed = if native {
                setting.container_mb(kind)
            } else {
                kind.mb
            };
            memory.take(needed)
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
