//! Metrics of pools of GPUs, from their own counters.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, set, with};
use crate::gpu::PoolReport;

/// Families of pools.
#[derive(Debug, Default)]
pub(super) struct GpuMetrics {
    dispatches: Family<Labels, Counter>,
    load_bytes: Family<Labels, Counter>,
    evictions: Family<Labels, Counter>,
    late: Family<Labels, Counter>,
    given_back: Family<Labels, Counter>,
    lost: Family<Labels, Counter>,
    refused_pages: Family<Labels, Counter>,
    waiting: Family<Labels, Gauge>,
    executors: Family<Labels, Gauge>,
    unusable: Family<Labels, Gauge>,
}

impl GpuMetrics {
    #[rustfmt::skip]
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("gpu_dispatches", "Requests that were given to a GPU, by pool and by whether it had their model", self.dispatches.clone());
        registry.register_with_unit("gpu_load", "Size of loads onto GPUs, by pool, by the gateway's record of their memories", Unit::Bytes, self.load_bytes.clone());
        registry.register("gpu_evictions", "Models that were evicted from GPUs for loads, by pool", self.evictions.clone());
        registry.register("gpu_late", "Requests that were refused since no GPU could have them in time, by pool", self.late.clone());
        registry.register("gpu_given_back", "Requests that waited again since their executor did not get them, by pool", self.given_back.clone());
        registry.register("gpu_executors_lost", "Executors that ceased to answer, by pool", self.lost.clone());
        registry.register("gpu_refused_pages", "Pages of executors that were above a limit or could not be read, by pool", self.refused_pages.clone());
        registry.register("gpu_waiting", "Requests that wait for a GPU, by pool", self.waiting.clone());
        registry.register("gpu_executors", "Executors, by pool and by whether they take requests", self.executors.clone());
        registry.register("gpu_executors_unusable", "Executors that take no requests since their last page was refused, by pool; the log says why", self.unusable.clone());
    }

    /// Takes the numbers of all pools.
    pub(super) fn set(&self, pools: impl IntoIterator<Item = PoolReport>) {
        self.waiting.clear();
        self.executors.clear();
        self.unusable.clear();
        for report in pools {
            let labels: Labels = vec![("pool", report.name.clone())];
            let of = |name, value: &str| with(labels.clone(), name, value);
            let totals = &report.totals;
            raise(&self.dispatches, &of("hit", "yes"), totals.hits);
            raise(&self.dispatches, &of("hit", "no"), totals.loads);
            raise(&self.load_bytes, &labels, totals.load_bytes);
            raise(&self.evictions, &labels, totals.evictions);
            raise(&self.late, &labels, totals.late);
            raise(&self.given_back, &labels, totals.given_back);
            raise(&self.lost, &labels, totals.lost);
            raise(&self.refused_pages, &labels, totals.refused_pages);
            set(&self.waiting, &labels, report.waiting);
            set(&self.executors, &of("available", "yes"), report.available);
            set(&self.executors, &of("available", "no"), report.lost);
            set(&self.unusable, &labels, report.unusable);
        }
    }
}

/// Raises a counter to a total. A pool that begins anew begins at zero, and so does not lower it.
fn raise(counters: &Family<Labels, Counter>, labels: &Labels, total: u64) {
    let counter = counters.get_or_create_owned(labels);
    counter.inc_by(total.saturating_sub(counter.get()));
}
