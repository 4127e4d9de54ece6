//! Prefixes of models that stay on the devices, at the wish of clients ([`crate::template`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::{ObjectId, ObjectRef};

use super::core::Core;
use super::jobs::{Job, Load};
use super::metrics::Metrics;
use super::pool::Pool;
use super::source::Sources;
use super::state::{Held, State};
use crate::memory::DeviceMemory;
use crate::protocol::Kept;
use crate::residency::{DeviceId, ModelKey, ModelSpec, Part, PrefixUsage, TenantId};
use crate::template::{Demand, Estimate, allocate, prefix_bytes};

/// Length of a transfer from which it counts for the bandwidth, in bytes. Shorter ones measure the
/// start of a transfer.
const LEAST_MEASURED_BYTES: u64 = 8 << 20;

/// Default of [`TemplateConfig::ttft`]: about an inference of 2,048 tokens with a model of 8 billion
/// parameters in TIDAL's figure 17.
pub const DEFAULT_TTFT: Duration = Duration::from_millis(500);

/// Parameters of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateConfig {
    /// Maximum length of all kept prefixes on a device, in bytes; objects of several count once.
    /// Zero: none are kept.
    pub budget_bytes: u64,
    /// Time to the first token of a model whose client has not measured one.
    pub ttft: Duration,
}

impl Default for TemplateConfig {
    fn default() -> Self {
        Self {
            budget_bytes: 0,
            ttft: DEFAULT_TTFT,
        }
    }
}

/// State of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TemplateReport {
    /// Its tenant.
    pub tenant: TenantId,
    /// Key of the model, in hexadecimal digits.
    pub model: String,
    /// Time to the first token, in microseconds: measured by clients, or the configured one.
    pub ttft_us: u64,
    /// Length of the prefix by equation (1), in bytes.
    pub wanted_bytes: u64,
    /// State of the kept prefix.
    pub usage: PrefixUsage,
}

/// Objects of a template that its device lacks.
struct Missing {
    name: Name,
    parts: Vec<Part>,
    sources: Arc<Sources>,
}

type Name = (DeviceId, TenantId, ModelKey);

/// A client's wish for a prefix.
struct Wish {
    spec: ModelSpec,
    objects: Arc<BTreeMap<ObjectId, ObjectRef>>,
    pool: Arc<Pool>,
    /// Measured times to the first token, in microseconds.
    ttft_us: Estimate,
    /// Limit of the prefix in bytes.
    most_bytes: u64,
    /// Number of the last wish or use: later ones come first when the budget does not suffice.
    recency: u64,
}

/// Wishes for prefixes, and the measurements that decide about their lengths.
#[derive(Default)]
pub(super) struct Templates {
    config: TemplateConfig,
    wishes: BTreeMap<Name, Wish>,
    /// Measured bytes per second of each device's transfers.
    bandwidth: BTreeMap<DeviceId, Estimate>,
    recency: u64,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Templates({})", self.wishes.len())
    }
}

impl Templates {
    pub fn new(config: TemplateConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Measured bytes per second of a device's transfers; `None` before the first long one.
    pub fn bandwidth(&self, device: DeviceId) -> Option<u64> {
        self.bandwidth.get(&device)?.value()
    }

    fn ttft_us(&self, wish: &Wish) -> u64 {
        let configured = u64::try_from(self.config.ttft.as_micros()).unwrap_or(u64::MAX);
        wish.ttft_us.value().unwrap_or(configured)
    }

    /// Length of the prefix that a wish needs. Before the first measurement no bandwidth is counted
    /// on.
    fn wanted_bytes(&self, device: DeviceId, wish: &Wish) -> u64 {
        let bandwidth = self.bandwidth(device).unwrap_or(0);
        let bytes = prefix_bytes(wish.spec.bytes(), self.ttft_us(wish), bandwidth);
        bytes.min(wish.most_bytes)
    }

    /// Number of leading objects that each model of a device keeps.
    fn allocation(&self, device: DeviceId) -> Vec<(Name, usize)> {
        let first = (device, TenantId(u32::MIN), ModelKey::MIN);
        let last = (device, TenantId(u32::MAX), ModelKey::MAX);
        let mut wishes: Vec<_> = self.wishes.range(first..=last).collect();
        wishes.sort_by_key(|(_, wish)| std::cmp::Reverse(wish.recency));
        let demand = |(_, wish): &(&Name, &Wish)| {
            let bytes = self.wanted_bytes(device, wish);
            (wish.spec.clone(), bytes)
        };
        let demands: Vec<_> = wishes.iter().map(demand).collect();
        let demands: Vec<_> = demands
            .iter()
            .map(|(spec, bytes)| Demand {
                parts: spec.parts(),
                bytes: *bytes,
            })
            .collect();
        let kept = allocate(&demands, self.config.budget_bytes);
        wishes.iter().map(|(name, _)| **name).zip(kept).collect()
    }
}

impl<D: DeviceMemory> State<D> {
    /// Sets the lengths of all prefixes on a device. Longer ones are not filled yet.
    fn set_prefixes(&mut self, device: DeviceId, now_ms: u64, metrics: &Metrics) {
        for (name, parts) in self.templates.allocation(device) {
            let (_, tenant, _) = name;
            let Some(spec) = self
                .templates
                .wishes
                .get(&name)
                .map(|wish| wish.spec.clone())
            else {
                continue;
            };
            if !self.manager.keeps(device, tenant, &spec, parts) {
                let freed = self.manager.keep(device, tenant, &spec, parts, now_ms);
                self.free(device, freed, metrics);
            }
        }
    }

    /// Records that a client uses a model: its prefix comes before others when the budget does not
    /// suffice for all.
    pub fn uses_template(&mut self, device: DeviceId, tenant: TenantId, key: ModelKey) {
        let templates = &mut self.templates;
        if let Some(wish) = templates.wishes.get_mut(&(device, tenant, key)) {
            templates.recency += 1;
            wish.recency = templates.recency;
        }
    }

    /// Templates of which objects are missing on their device.
    fn unfilled(&self) -> Vec<Missing> {
        let mut all = Vec::new();
        for (name, wish) in &self.templates.wishes {
            let (device, tenant, key) = *name;
            let parts = self.manager.missing_of_prefix(device, tenant, key);
            if !parts.is_empty() {
                let sources = Sources::new(Arc::clone(&wish.pool), Arc::clone(&wish.objects));
                all.push(Missing {
                    name: *name,
                    parts,
                    sources: Arc::new(sources),
                });
            }
        }
        all
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
        let wishes = std::mem::take(&mut self.templates.wishes);
        let (gone, left) = wishes
            .into_iter()
            .partition(|((_, of, _), _)| *of == tenant);
        self.templates.wishes = left;
        let gone: BTreeMap<Name, Wish> = gone;
        for ((device, ..), wish) in gone {
            let freed = self.manager.keep(device, tenant, &wish.spec, 0, now_ms);
            self.free(device, freed, metrics);
        }
    }

    /// States of a device's templates.
    pub fn template_reports(&self, device: DeviceId) -> Vec<TemplateReport> {
        let wishes = self.templates.wishes.iter();
        let own = wishes.filter(|((on, ..), _)| *on == device);
        own.map(|((device, tenant, key), wish)| TemplateReport {
            tenant: *tenant,
            model: key.0.to_string(),
            ttft_us: self.templates.ttft_us(wish),
            wanted_bytes: self.templates.wanted_bytes(*device, wish),
            usage: self
                .manager
                .prefix_usage(*device, *tenant, *key)
                .unwrap_or(PrefixUsage {
                    model_bytes: wish.spec.bytes(),
                    kept_bytes: 0,
                    resident_bytes: 0,
                }),
        })
        .collect()
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
            if most_bytes == 0 || state.templates.config.budget_bytes == 0 {
                if let Some(wish) = state.templates.wishes.remove(&name) {
                    let freed = state.manager.keep(device, tenant, &wish.spec, 0, now_ms);
                    state.free(device, freed, &self.metrics);
                }
            } else {
                let templates = &mut state.templates;
                templates.recency += 1;
                let recency = templates.recency;
                let wish = templates.wishes.entry(name).or_insert_with(|| Wish {
                    spec: held.spec.clone(),
                    objects: Arc::clone(&held.objects),
                    pool: Arc::clone(pool),
                    ttft_us: Estimate::default(),
                    most_bytes,
                    recency,
                });
                (wish.most_bytes, wish.recency) = (most_bytes, recency);
                // A later client may know the order of use better.
                wish.spec = held.spec.clone();
                if ttft_us > 0 {
                    wish.ttft_us.add(ttft_us);
                }
            }
            state.set_prefixes(device, now_ms, &self.metrics);
            Kept {
                prefix_bytes: state
                    .manager
                    .prefix_usage(device, tenant, key)
                    .map_or(0, |usage| usage.kept_bytes),
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
        let now_ms = self.now_ms();
        let drifted = {
            let mut state = self.state();
            let estimate = state.templates.bandwidth.entry(device).or_default();
            let drifted = estimate.add(rate);
            if drifted {
                state.set_prefixes(device, now_ms, &self.metrics);
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
            if let Err(refused) = missing.sources.map_all(&missing.parts) {
                tracing::debug!(reason = %refused.text, "a prefix is not complete");
                continue;
            }
            self.state().fill(missing, now_ms, &self.metrics);
        }
    }
}
