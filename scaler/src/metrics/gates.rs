//! Metrics of scheduling gates.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tetris_service_kit::metrics::ByLabel;

/// Upper bounds of the histogram of waits, in seconds.
const SECONDS: [f64; 9] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Metrics of scheduling gates.
#[derive(Debug)]
pub(super) struct Gates {
    opened: ByLabel,
    waited: Histogram,
    replaced: Counter,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            opened: ByLabel::default(),
            waited: Histogram::new(SECONDS),
            replaced: Counter::default(),
        }
    }
}

impl Gates {
    #[rustfmt::skip]
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("gates_opened", "Scheduling gates opened, by reason: planned node, another node (chosen), nodes with the model (preferred), no node (unplanned), or timeout", self.opened.clone());
        registry.register_with_unit("gate_wait", "Time for which gates were closed, as this replica saw it", Unit::Seconds, self.waited.clone());
    }

    /// Registers the counter that only the operator has.
    #[rustfmt::skip]
    pub(super) fn register_replaced(&self, registry: &mut Registry) {
        registry.register("pods_replaced", "Pods deleted because their node did not take them", self.replaced.clone());
    }

    pub(super) fn opened(&self, reason: &'static str, seconds: f64) {
        self.opened.get_or_create(&[("reason", reason)]).inc();
        self.waited.observe(seconds);
    }

    pub(super) fn replaced(&self) {
        self.replaced.inc();
    }
}
