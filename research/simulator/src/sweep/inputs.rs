//! The table of invented inputs, with the range in which a sweep varies each of them.

use serde::Serialize;

use crate::scenario::Assumptions;

/// An invented input: a number that is neither the paper's nor the operator's default.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Input {
    /// Name: that of its field.
    pub name: &'static str,
    /// Description with unit.
    pub about: &'static str,
    /// Smallest value of a sweep.
    pub low: u64,
    /// Largest value of a sweep.
    pub high: u64,
    #[serde(skip)]
    field: fn(&mut Assumptions) -> &mut u64,
}

impl Input {
    /// Value in a run without a sweep.
    pub fn default_value(&self) -> u64 {
        *(self.field)(&mut Assumptions::default())
    }

    /// Sets the input.
    pub fn set(&self, assumptions: &mut Assumptions, value: u64) {
        *(self.field)(assumptions) = value;
    }
}

macro_rules! inputs {
    ($($part:ident.$field:ident: $low:literal..=$high:literal, $about:literal;)*) => {
        &[$(Input {
            name: stringify!($field),
            about: $about,
            low: $low,
            high: $high,
            field: |all| &mut all.$part.$field,
        }),*]
    };
}

/// All invented inputs. Default values are those of [`Assumptions`].
pub const INPUTS: &[Input] = inputs! {
    platform.load_window_s: 15..=120, "span of the measured load, s";
    platform.scrape_s: 5..=30, "interval between scrapes, s";
    platform.start_us: 1_000_000..=15_000_000, "from a decision to a server that loads, us";
    platform.least_latency_permille: 600..=1_000, "least latency of a batch, thousandths of the most";
    platform.neighbors_permille: 0..=500, "latency on a busy node, thousandths more";
    platform.keep_alive_s: 0..=86_400, "time that unused tensors stay in a store, s";
    platform.copied_permille: 0..=1_000, "share of a mapped file that engines copy, thousandths";
    platform.photons_cpu_millis: 1_000..=4_000, "CPU of a thread under Photons, millicores";
    models.load_permille: 500..=2_000, "all loads, thousandths";
    models.ss_load: 1..=10, "load of SS, multiple of SVT's";
    models.qa_text_load: 5..=50, "load of QA-Text, multiple of SVT's";
    models.branch_permille: 100..=500, "share of the first Resnet152, thousandths";
    models.work_permille: 500..=1_250, "work of a request, thousandths";
    models.serial_permille: 0..=300, "work on one core only, thousandths";
    models.thread_permille: 0..=3_000, "cost of a further thread, thousandths";
    models.once_permille: 0..=2_000, "work that a batch does once, thousandths";
    models.slo_permille: 800..=2_000, "objectives, thousandths";
    models.private_permille: 500..=3_000, "assumed private memory, thousandths";
    models.request_permille: 0..=4_000, "memory of a further request in flight, thousandths";
    models.max_cpu_millis: 4_000..=8_000, "most CPU of an instance, millicores";
    trace.noise_permille: 0..=200, "deviation of a second's load, thousandths";
    trace.period_s: 300..=1_800, "day of the periodic trace, s";
    trace.night_permille: 50..=500, "load of the night, thousandths of the day's";
    trace.burst_every_s: 60..=600, "mean interval between bursts, s";
    trace.burst_permille: 300..=2_000, "height of bursts, thousandths";
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Fields that are the operator's defaults or the paper's numbers.
    const NOT_INVENTED: [&str; 8] = [
        "interval_s",
        "window_s",
        "consolidate_after_s",
        "alpha_bytes_per_millicore",
        "keep_percent",
        "scale_out_percent",
        "disk_bytes_per_s",
        "cache_bytes_per_s",
    ];

    #[test]
    fn every_invented_input_is_in_the_table() {
        let all = serde_json::to_value(Assumptions::default()).unwrap();
        let parts = all.as_object().unwrap().values();
        let fields = parts.flat_map(|part| part.as_object().unwrap().keys());
        let invented = fields.filter(|name| !NOT_INVENTED.contains(&name.as_str()));
        let invented: BTreeSet<&str> = invented.map(String::as_str).collect();
        let table: BTreeSet<&str> = INPUTS.iter().map(|input| input.name).collect();
        assert_eq!(table, invented);
        assert_eq!(table.len(), INPUTS.len(), "a name stands twice");
    }

    #[test]
    fn a_range_has_the_default_and_is_a_range() {
        for input in INPUTS {
            let default = input.default_value();
            let range = input.low..=input.high;
            assert!(
                range.contains(&default) && input.low < input.high,
                "{}",
                input.name
            );
            let mut assumptions = Assumptions::default();
            input.set(&mut assumptions, input.high + 1);
            assert_ne!(assumptions, Assumptions::default(), "{}", input.name);
        }
    }
}
