//! Families of numbers computed at each scrape: nothing is kept, so nothing can drift.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Writes families.
pub(super) struct Families<'e>(pub DescriptorEncoder<'e>);

impl Families<'_> {
    /// Gauges of one name.
    pub(super) fn family<'a, N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, N)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in samples {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A gauge without labels.
    pub(super) fn one(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.family(name, unit, help, [(Labels::new(), value)])
    }

    /// Counters of one name, with values counted elsewhere.
    pub(super) fn counters<'a, N: EncodeCounterValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, N)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in samples {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
