//! Figures of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gpu::record::{GpuRecords, Record};

use super::node::NodeSetting;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeOutcome {
    /// Functions with requests that counted.
    pub functions: u64,
    /// Functions of which any request was executed.
    pub executed: u64,
    /// Functions with 98 % of their requests in time.
    pub compliant: u64,
    /// Number of requests that counted.
    pub requests: u64,
    /// Requests that were refused, late, or never executed.
    pub failed: u64,
    /// Requests whose model was loaded.
    pub misses: u64,
    /// Bytes from the host.
    pub host_bytes: u64,
    /// Bytes from other GPUs.
    pub peer_bytes: u64,
    /// 98th percentile from arrival to result of vision models and of Bert-qa, in microseconds.
    pub p98_us: [u64; 2],
    /// 98th percentile from dispatch to result of vision models, in microseconds.
    pub service_p98_us: u64,
}

impl NodeOutcome {
    pub(super) fn of(setting: &NodeSetting, records: &GpuRecords) -> Self {
        let from_us = setting.warm_us();
        let counted: Vec<&Record> = records
            .requests
            .iter()
            .filter(|request| request.arrived_us >= from_us)
            .collect();
        let mut functions: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
        for record in &counted {
            let [all, run, in_time] = functions.entry(record.function).or_default();
            *all += 1;
            *run += u64::from(record.latency_us.is_some());
            *in_time += u64::from(record.is_in_time());
        }
        let count = |test: fn(&[u64; 3]) -> bool| {
            functions.values().filter(|function| test(function)).count()
        };
        let is_bert = |one: &Record| {
            setting
                .kind(one.function)
                .is_some_and(|(_, kind)| kind.is_bert)
        };
        let of_kind = |bert: bool, value: fn(&Record) -> u64| {
            let served = counted.iter().filter(|record| record.latency_us.is_some());
            percentile(
                served
                    .filter(|record| is_bert(record) == bert)
                    .map(|record| value(record))
                    .collect(),
            )
        };
        Self {
            functions: functions.len() as u64,
            executed: count(|&[_, run, _]| run > 0) as u64,
            compliant: count(|&[all, _, in_time]| in_time * 100 >= all * 98) as u64,
            requests: counted.len() as u64,
            failed: counted.iter().filter(|entry| !entry.is_in_time()).count() as u64,
            misses: counted.iter().filter(|miss| miss.missed).count() as u64,
            host_bytes: records.host_bytes,
            peer_bytes: records.peer_bytes,
            p98_us: [false, true].map(|bert| of_kind(bert, |entry| entry.latency_us.unwrap_or(0))),
            service_p98_us: of_kind(false, |entry| entry.service_us),
        }
    }

    /// Sum of the nodes of a cluster; percentiles are those of the worst.
    pub(super) fn plus(self, other: &Self) -> Self {
        let [vision, text] = self.p98_us;
        let [other_vision, other_text] = other.p98_us;
        Self {
            functions: self.functions + other.functions,
            executed: self.executed + other.executed,
            compliant: self.compliant + other.compliant,
            requests: self.requests + other.requests,
            failed: self.failed + other.failed,
            misses: self.misses + other.misses,
            host_bytes: self.host_bytes + other.host_bytes,
            peer_bytes: self.peer_bytes + other.peer_bytes,
            p98_us: [vision.max(other_vision), text.max(other_text)],
            service_p98_us: self.service_p98_us.max(other.service_p98_us),
        }
    }
}

fn percentile(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let at = (values.len() * 98).div_ceil(100).saturating_sub(1);
    values.get(at).copied().unwrap_or(0)
}
