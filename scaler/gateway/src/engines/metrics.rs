//! Metrics of groups of engines that sleep.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::page::GroupPage;

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Upper bounds of times of orders, in seconds.
const SECONDS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

/// Families of groups. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct EngineMetrics {
    orders: Family<Labels, Counter>,
    seconds: Histograms,
    cut: Family<Labels, Counter>,
    waiting: Family<Labels, Gauge>,
    states: Family<Labels, Gauge>,
}

impl Default for EngineMetrics {
    fn default() -> Self {
        Self {
            orders: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            cut: Family::default(),
            waiting: Family::default(),
            states: Family::default(),
        }
    }
}

impl EngineMetrics {
    #[rustfmt::skip]
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("engine_orders", "Orders to engines to sleep or to wake up, by group, engine, order and outcome: done or failed", self.orders.clone());
        registry.register_with_unit("engine_order", "Time of successful orders, by group, engine and order", Unit::Seconds, self.seconds.clone());
        registry.register("engine_cut", "Requests cut off since their engine had to sleep, by group", self.cut.clone());
        registry.register("engine_waiting", "Requests that wait for an engine, by group", self.waiting.clone());
        registry.register("engine_state", "1 for the state of the engine now, by group, engine and state: awake, draining, falling-asleep, asleep, waking, unknown, gone, silent or no-paths", self.states.clone());
    }

    /// Counts the end of an order to an engine of a group.
    pub(crate) fn ordered(
        &self,
        (group, engine): (&str, &str),
        order: &'static str,
        succeeded: bool,
        took: Duration,
    ) {
        let labels = with(of(group), "engine", engine);
        let labels = with(labels, "order", order);
        if succeeded {
            let seconds = self.seconds.get_or_create_owned(&labels);
            seconds.observe(took.as_secs_f64());
        }
        let outcome = if succeeded { "done" } else { "failed" };
        let labels = with(labels, "outcome", outcome);
        self.orders.get_or_create(&labels).inc();
    }

    /// Counts a request whose engine had to sleep.
    pub(crate) fn cut(&self, group: &str) {
        self.cut.get_or_create(&of(group)).inc();
    }

    /// Takes the states of all groups.
    pub(crate) fn set(&self, groups: impl IntoIterator<Item = GroupPage>) {
        self.waiting.clear();
        self.states.clear();
        for page in groups {
            let labels = of(&page.group);
            let _at_zero = self.cut.get_or_create_owned(&labels);
            set(&self.waiting, &labels, page.waiting);
            for engine in page.engines {
                let labels = with(labels.clone(), "engine", &engine.engine);
                set(&self.states, &with(labels, "state", engine.state), 1);
            }
        }
    }
}

fn of(group: &str) -> Labels {
    vec![("group", group.to_owned())]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

fn set(gauges: &Family<Labels, Gauge>, labels: &Labels, value: usize) {
    let gauge = gauges.get_or_create_owned(labels);
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
