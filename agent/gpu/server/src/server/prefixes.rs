//! Prefixes of the templates on the devices: their lengths, the copies of absent objects, and the
//! measurements that both follow.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::jobs::{Job, Load};
use super::metrics::Metrics;
use super::pool::Pool;
use super::source::Sources;
use super::state::{Held, State};
use super::templates::{TemplateName, Wish};
use crate::residency::{DeviceId, Part, TenantId};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::Kept;

/// Length of a transfer from which it counts for the bandwidth, in bytes. Shorter ones measure the
/// start of a transfer.
const LEAST_MEASURED_BYTES: u64 = 8 << 20;

/// Objects of a template that its device lacks.
struct Missing {
    name: TemplateName,
    parts: Vec<Part>,
    sources: Arc<Sources>,
}

impl<D: DeviceMemory> State<D> {
    /// Sets the lengths of all prefixes on a device. Longer ones are not filled yet.
    fn set_prefixes(&mut self, device: DeviceId, now_ms: u64, metrics: &Metrics) {
        for (name, parts) in self.templates.allocation(device) {
            let (_, tenant, _) = name;
            let Some(spec) = self.templates.spec(&name).cloned() else {
                continue;
            };
            if !self.manager.keeps(device, tenant, &spec, parts) {
                let freed = self.manager.keep(device, tenant, &spec, parts, now_ms);
                self.free(device, freed, metrics);
            }
        }
    }

    /// Templates of which objects are missing on their device.
    fn unfilled(&self) -> Vec<Missing> {
        let missing = |name: &TemplateName| {
            let (device, tenant, key) = *name;
            let parts = self.manager.missing_of_prefix(device, tenant, key);
            if parts.is_empty() {
                return None;
            }
            Some(Missing {
                name: *name,
                parts,
                sources: Arc::new(self.templates.sources(name)?),
            })
        };
        self.templates.names().filter_map(missing).collect()
    }

    /// Queues the copies of a template's missing objects, if there is room.
    fn fill(&mut self, missing: Missing, now_ms: u64, metrics: &Metrics) {
        let (device, tenant, key) = missing.name;
        let filling = match self.manager.fill(device, tenant, key, now_ms) {
            Ok(filling) => filling,
            Err(refusal) => {
                tracing::debug!(%refusal, %device, %tenant, "no room for a prefix now");
                return;
            }
        };
        self.free(device, filling.freed, metrics);
        if filling.copies.is_empty() {
            return;
        }
        metrics.prefetched_objects.add(filling.copies.len() as u64);
        let slot = self.devices.get_mut(&device);
        let number = slot.map(|slot| slot.transfers.begin(tenant, key, &filling.copies));
        let load = Load {
            number: number.unwrap_or(0),
            tenant,
            copies: filling.copies,
            sources: missing.sources,
        };
        self.push(device, Job::Load(load));
    }

    /// Forgets a tenant's templates. Their objects leave when others need the room.
    pub fn forget_templates(&mut self, tenant: TenantId, now_ms: u64, metrics: &Metrics) {
        for (device, spec) in self.templates.remove_tenant(tenant) {
            let freed = self.manager.keep(device, tenant, &spec, 0, now_ms);
            self.free(device, freed, metrics);
        }
    }
}

impl<D: DeviceMemory> Core<D> {
    /// Keeps the prefix of a held model, or keeps it no longer with `most_bytes` 0. `ttft_us` is the
    /// client's measured time to the first token in microseconds; 0: it has measured none.
    pub fn keep(
        &self,
        tenant: TenantId,
        pool: &Arc<Pool>,
        held: &Held,
        ttft_us: u64,
        most_bytes: u64,
    ) -> Kept {
        let now_ms = self.now_ms();
        let kept = {
            let mut state = self.state();
            let Some(device) = state.device_of(held.client) else {
                return Kept::default();
            };
            let key = held.spec.key();
            let name = (device, tenant, key);
            if most_bytes > 0 && state.templates.are_kept() {
                let wish = Wish {
                    spec: held.spec.clone(),
                    objects: Arc::clone(&held.objects),
                    pool: Arc::clone(pool),
                    most_bytes,
                };
                for spec in state.templates.wish(name, wish, ttft_us) {
                    let freed = state.manager.keep(device, tenant, &spec, 0, now_ms);
                    state.free(device, freed, &self.metrics);
                }
            } else if let Some(spec) = state.templates.remove(&name) {
                let freed = state.manager.keep(device, tenant, &spec, 0, now_ms);
                state.free(device, freed, &self.metrics);
            }
            state.set_prefixes(device, now_ms, &self.metrics);
            let usage = state.manager.prefix_usage(device, tenant, key);
            Kept {
                prefix_bytes: usage.map_or(0, |usage| usage.kept_bytes),
                bytes_per_sec: state.templates.bandwidth(device).unwrap_or(0),
            }
        };
        self.fill_templates();
        kept
    }

    /// Counts a transfer for a device's bandwidth. If that has drifted, the prefixes follow.
    pub fn measured(&self, device: DeviceId, bytes: u64, time: Duration) {
        if bytes < LEAST_MEASURED_BYTES {
            return;
        }
        let rate = u128::from(bytes) * 1_000_000 / time.as_micros().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let drifted = {
            let mut state = self.state();
            let drifted = state.templates.measured(device, rate);
            if drifted {
                state.set_prefixes(device, self.now_ms(), &self.metrics);
            }
            drifted
        };
        if drifted {
            self.fill_templates();
        }
    }

    /// Copies objects of prefixes that are not on their devices, where there is room: prefixes that
    /// became longer, and those that made room for a client.
    pub fn fill_templates(&self) {
        let now_ms = self.now_ms();
        let missing = {
            let mut state = self.state();
            let devices: Vec<_> = state.devices.keys().copied().collect();
            for device in devices {
                state.set_prefixes(device, now_ms, &self.metrics);
            }
            state.unfilled()
        };
        for missing in missing {
            // Outside the lock: it opens files.
            if let Err(reason) = missing.sources.map_all(&missing.parts) {
                tracing::debug!(?reason, "a prefix is not complete");
                continue;
            }
            self.state().fill(missing, now_ms, &self.metrics);
        }
    }
}
